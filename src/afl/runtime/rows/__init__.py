"""Records as rows: what stores on SQL databases have in common.

`codec` (JSON values), `table` (a record and its columns), `steps` (the same for steps, which are
no plain records), `pruning` (how old runs are removed). The statements themselves are each store's
own, and so are its indexes.
"""
