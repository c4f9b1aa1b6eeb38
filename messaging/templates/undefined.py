"""What stands for a variable that was not given: empty, chainable, and remembered once it is used."""

from typing import Any, Final, NoReturn

from jinja2 import ChainableUndefined

from messaging.templates.errors import Refused

#: Stands for a name that the template does not spell out.
COMPUTED: Final = "(computed)"


class Missing(ChainableUndefined):
    """A name that was asked for and not given.

    It is noted when it is written, tested or looped over, not when it is looked up: `is defined` and `default(...)`
    only look.
    """

    __slots__ = ("_noted",)

    def __init__(self, name: str | None = None, noted: dict[str, None] | None = None) -> None:
        """`noted`: names in order of first use; None for what no caller could have given, as a macro's parameter."""
        super().__init__(name=name)
        self._noted = noted

    def note(self) -> None:
        """Remember that the name was needed."""
        if self._noted is not None and self._undefined_name is not None:
            self._noted.setdefault(self._undefined_name)

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        """It cannot be calculated with, compared in order, or called."""
        raise Refused("a value is needed and was not given", variable=self._undefined_name)

    __add__ = __radd__ = __sub__ = __rsub__ = refuse
    __mul__ = __rmul__ = __truediv__ = __rtruediv__ = refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = refuse
    __pow__ = __rpow__ = __pos__ = __neg__ = __call__ = refuse
    __lt__ = __le__ = __gt__ = __ge__ = refuse
    __int__ = __float__ = __complex__ = __index__ = __round__ = __abs__ = refuse

    def __getitem__(self, _name: Any) -> "Missing":  # type: ignore[override]  # as in its base
        return self

    def __eq__(self, other: object) -> bool:
        self.note()
        return isinstance(other, Missing)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return id(type(self))

    def __str__(self) -> str:
        self.note()
        return ""

    def __len__(self) -> int:
        self.note()
        return 0

    def __iter__(self) -> Any:
        self.note()
        return iter(())

    def __bool__(self) -> bool:
        self.note()
        return False
