"""Typed states: a thread read with a model, and what happens when a stored state does not fit it."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

import takeback
from takeback import errors


class PydanticLeg(pydantic.BaseModel):
    to: str
    days: int = 1


class PydanticTrip(pydantic.BaseModel):
    legs: list[PydanticLeg] = []
    note: str | None = None
    when: datetime | None = None
    raw: bytes = b""


class StructLeg(msgspec.Struct):
    to: str
    days: int = 1


class StructTrip(msgspec.Struct):
    legs: list[StructLeg] = []
    note: str | None = None
    when: datetime | None = None
    raw: bytes = b""


@dataclasses.dataclass
class DataLeg:
    to: str
    days: int = 1


@dataclasses.dataclass
class DataTrip:
    legs: list[DataLeg] = dataclasses.field(default_factory=list)
    note: str | None = None
    when: datetime | None = None
    raw: bytes = b""


class DictLeg(TypedDict):
    to: str
    days: int


class DictTrip(TypedDict, total=False):
    legs: list[DictLeg]
    note: str | None
    when: datetime | None
    raw: bytes


KINDS = {
    "pydantic": (PydanticTrip, PydanticLeg),
    "msgspec": (StructTrip, StructLeg),
    "dataclass": (DataTrip, DataLeg),
    "TypedDict": (DictTrip, DictLeg),
}
WHEN = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLAIN = {"legs": [{"to": "NYC", "days": 2}], "note": None, "when": WHEN, "raw": b"\x00\xff"}


@pytest.fixture
def tb():
    with takeback.open(":memory:") as repo:
        yield repo


@pytest.fixture(params=KINDS)
def kinds(request):
    return KINDS[request.param]


def leg_of(state: Any) -> Any:
    return (state["legs"] if isinstance(state, dict) else state.legs)[0]


def test_a_model_goes_in_and_comes_out(tb, kinds):
    """An instance is stored as the plain value that it stands for, and read as an equal instance."""
    Trip, Leg = kinds
    value = Trip(legs=[Leg(to="NYC", days=2)], note=None, when=WHEN, raw=b"\x00\xff")
    trip = tb.thread("t", model=Trip, initial=value)
    assert trip.state == value
    assert type(trip.state) is type(value)
    assert type(leg_of(trip.state)) is type(leg_of(value))
    assert tb.thread("t").state == PLAIN
    assert tb.thread("t", model=Trip).at(0).state == value
    assert trip.commit(value).state_root == trip.at(0).checkpoint.state_root


def test_a_step_works_on_an_instance(tb, kinds):
    """The working state is an instance, changed as such; what is committed is its plain value."""
    Trip, Leg = kinds
    trip = tb.thread("t", model=Trip, initial=Trip(legs=[Leg(to="NYC", days=2)]))
    with trip.step() as s:
        if isinstance(s.state, dict):
            s.state["note"] = "hi"
            s.state["legs"].append(Leg(to="BOS", days=1))
        else:
            s.state.note = "hi"
            s.state.legs.append(Leg(to="BOS", days=1))
    assert tb.thread("t").get("note") == "hi"
    assert tb.thread("t").get("/legs/1") == {"to": "BOS", "days": 1}
    assert trip.undo().state == trip.at(0).state
    with trip.step() as s:
        pass
    assert s.made is None


def test_a_first_step_begins_with_the_models_defaults(tb, kinds):
    """A thread without versions has no state to read: the step begins with an empty instance."""
    Trip, Leg = kinds
    new = tb.thread("new", model=Trip)
    with new.step() as s:
        assert s.state == Trip()
    assert not new.exists
    with new.step() as s:
        if isinstance(s.state, dict):
            s.state["legs"] = [Leg(to="NYC", days=2)]
        else:
            s.state.legs.append(Leg(to="NYC", days=2))
    assert leg_of(new.state) == Leg(to="NYC", days=2)


def test_a_model_without_defaults_needs_an_initial_state(tb):
    """What the first step would begin with is not guessed."""
    for Leg in (StructLeg, DataLeg):
        with pytest.raises(errors.BadRequest, match="initial=") as caught, tb.thread("t", model=Leg).step():
            pass
        assert caught.value.thread == "t"


def test_steps_of_instances_merge(tb, kinds):
    """The end of a typed step merges by value, as any other."""
    Trip, Leg = kinds
    trip = tb.thread("t", model=Trip, initial=Trip(legs=[Leg(to="NYC", days=2)], note=None))
    other = tb.thread("t")
    value = Trip(legs=[Leg(to="NYC", days=2), Leg(to="BOS", days=1)], note=None)
    other.append("legs", {"to": "SFO", "days": 9})
    trip.commit(value, on_conflict="merge")
    assert [leg["to"] for leg in other.refresh().get("legs")] == ["NYC", "SFO", "BOS"]


MISFITS = [
    ({"legs": [{"to": "NYC", "days": 1}, {"to": "BOS", "days": "many"}]}, "/legs/1/days"),
    ({"legs": {}}, "/legs"),
    ({"legs": [{"days": 1}]}, None),
    ({"note": 5}, "/note"),
    ("no object at all", ""),
]


@pytest.mark.parametrize(("value", "path"), MISFITS)
def test_a_misfit_names_thread_checkpoint_and_path(tb, kinds, value, path):
    """No half-loaded state: BadState says what does not fit where, and how to see it as it is stored."""
    Trip, _ = kinds
    tb.thread("t", initial={"legs": []})
    tb.thread("t").commit(value)
    trip = tb.thread("t", model=Trip)
    for read in (lambda: trip.state, lambda: trip.at(1).state, lambda: trip.step().__enter__()):
        with pytest.raises(errors.BadState) as caught:
            read()
        error = caught.value
        assert (error.thread, error.checkpoint) == ("t", 1)
        assert Trip.__name__ in str(error)
        assert "without model=" in error.hint
        if path is not None:
            assert error.path == path
    assert trip.get("") == value
    assert trip.undo().state == Trip(legs=[])


def test_a_misfit_after_a_failed_step_leaves_no_step_open(tb):
    """An error at the beginning of a step opens none."""
    tb.thread("t", initial={"legs": 5})
    trip = tb.thread("t", model=DataTrip)
    with pytest.raises(errors.BadState), trip.step():
        pass
    assert trip.commit(DataTrip()).version == 1


def test_models_of_a_fork_and_an_older_version(tb, kinds):
    """A fork is read with its original's model."""
    Trip, Leg = kinds
    trip = tb.thread("t", model=Trip, initial=Trip(legs=[Leg(to="NYC", days=2)]))
    alt = trip.fork(name="alt")
    assert alt.state == trip.state
    assert type(leg_of(alt.state)) is type(leg_of(trip.state))


def test_models_inside_plain_values(tb):
    """Instances anywhere in a state are taken apart, all three kinds, however deep."""
    value = {"a": [DataLeg("x"), StructLeg("y"), {"b": PydanticLeg(to="z")}]}
    trip = tb.thread("t", initial=value)
    expected = [{"to": "x", "days": 1}, {"to": "y", "days": 1}, {"b": {"to": "z", "days": 1}}]
    assert trip.get("a") == expected
    trip.append("a", DataLeg("w"))
    trip.patch({"leg": StructLeg("v")})
    assert (trip.get("/a/3/to"), trip.get("/leg/to")) == ("w", "v")


def test_what_is_in_a_model_must_be_storable_too(tb):
    """A field that cannot be stored is refused at its path, like any other value."""
    with pytest.raises(errors.Unstorable) as caught:
        tb.thread("t", initial={"leg": DataLeg(to={"a", "set"})})
    assert caught.value.path == "/leg/to"
    assert not tb.thread("t").exists
