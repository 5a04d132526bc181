"""What is closed at the end of a `with` block, whatever happens in it."""

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """A context manager that is itself and closes itself."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held; safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
