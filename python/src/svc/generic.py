"""typing.Generic for classes that are there before anything else is imported."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Generic as Generic
else:

    class Generic:
        """typing.Generic without its import."""

        def __class_getitem__(cls, _):
            return cls
