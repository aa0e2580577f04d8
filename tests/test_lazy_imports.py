"""Names that are imported when they are first used."""

import sys
from types import ModuleType

import pytest

from demiurge.lazy_imports import lazy_attributes


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = ModuleType("made_up")
    monkeypatch.setitem(sys.modules, "made_up", made)
    made.__getattr__ = lazy_attributes("made_up", {"fractions": ("Fraction",), "colorsys": ("rgb_to_hsv",)})  # type: ignore[method-assign]
    return made


def test_a_name_comes_from_its_home_and_stays(package: ModuleType) -> None:
    import fractions

    assert package.Fraction is fractions.Fraction
    assert vars(package)["Fraction"] is fractions.Fraction


def test_nothing_is_imported_before(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    assert package.Fraction
    assert "colorsys" not in sys.modules
    assert package.rgb_to_hsv(0, 0, 0) == (0, 0, 0)
    assert "colorsys" in sys.modules


def test_other_names_are_not_there(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match="module 'made_up' has no attribute 'nothing'"):
        package.nothing  # noqa: B018
