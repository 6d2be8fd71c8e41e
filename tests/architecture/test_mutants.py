"""Every fault of scripts/mutants.txt still has its one place in the sources, and changes it."""

from __future__ import annotations

from tests.support.scripts import script

mutants = script("mutants")


def test_every_fault_has_its_place() -> None:
    found = mutants.read()
    assert len(found) == 40 and len(set(found)) == 40
    lost = []
    for mutant in found:
        try:
            mutants.place_of(mutant, mutants.ROOT / mutants.PACKAGE)
        except LookupError as error:
            lost.append(str(error))
        assert mutant.text != mutant.fault
    assert lost == []
