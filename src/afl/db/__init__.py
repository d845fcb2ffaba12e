"""Databases: the plumbing that engine, mailboxes and turns share.

One object for each database and process, used by every adapter above. Nothing here knows what is
stored.
"""
