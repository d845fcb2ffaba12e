"""Moving everything from one store to another: `afl store copy`.

- **Only what is missing is written**, under the id that it has, in pages. A copy that was killed
  and is started again goes on; what is there is compared, never replaced.
- **Everything is read back** and compared. What differs is an error that names it.
- **Work comes last.** Tasks that can be claimed are written when all else is there: nobody begins
  a run that is there in part.
- **Nothing is mixed.** A place that has anything of its own is refused.
- **A place takes one copy.** Its lock stays for ever when the copy is complete, so that a second
  one cannot bring back what was done meanwhile.
"""

from __future__ import annotations

from afl.operations.copying.copy import copy_all as copy_all
from afl.operations.copying.progress import CopyReport as CopyReport
from afl.operations.copying.progress import Differs as Differs
from afl.operations.copying.progress import PartReport as PartReport
from afl.operations.copying.progress import Watcher as Watcher
