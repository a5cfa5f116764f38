"""Declaring tools: presets and axes, templates, names, and mistakes that are found where the tool stands."""

from __future__ import annotations

import functools

import pytest

import takeback
from takeback import errors
from takeback.tools import PRESETS, Tool, declare, registry


def nothing(to):
    """An undo."""


AXES = {
    "pure": ("free", None, False, False),
    "idempotent": ("keyed", None, False, False),
    "compensable": ("once", "nothing@1", False, False),
    "transactional": ("once", None, True, False),
    "local": ("once", None, False, True),
    "irreversible": ("once", None, False, False),
}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_a_place_on_both_axes(preset):
    """May it be repeated, and how is it taken back."""

    def send(to):
        return to

    made = declare(send, preset, **({"undo": nothing} if preset == "compensable" else {}))
    d = made.declared
    assert (d.repeat, d.undo_name, d.within, d.local) == AXES[preset]
    assert (d.preset, d.name, made.handler) == (preset, "send", "send@1")


def test_what_is_not_declared_is_irreversible_and_what_has_an_undo_compensable():
    @takeback.tool
    def bare(to):
        """Sends."""

    @takeback.tool(undo=nothing)
    def undoable(to):
        """Sends."""

    @takeback.tool(read=lambda to: 1, write=lambda to, value: None)
    def restorable(to):
        """Sends."""

    assert [each.declared.preset for each in (bare, undoable, restorable)] == [
        "irreversible", "compensable", "compensable",
    ]  # fmt: skip
    assert restorable.declared.undo_name == "restore@1:restorable"


def test_each_argument_of_a_preset_can_be_overridden():
    """A keyed call with an undo that must not be repeated."""

    @takeback.tool(
        "idempotent", repeat="once", undo=nothing, undo_safe=False, key_ttl=60, timeout=5, version=3
    )
    def send(to):
        """Sends."""

    d = send.declared
    assert (d.repeat, d.undo_safe, d.key_ttl, d.timeout) == ("once", False, 60, 5)
    assert (send.handler, d.undo_name) == ("send@3", "nothing@3")
    spec = send.spec({"to": "x"})
    assert (spec.key_ttl_us, spec.timeout_us) == (60_000_000, 5_000_000)


def test_a_tool_is_still_the_function():
    """Name, docstring and the function itself are there; a pure tool needs no step."""

    @takeback.tool("pure")
    def double(n: int) -> int:
        """Twice."""
        return 2 * n

    assert (double.__name__, double.__doc__, double(4), double.raw(5)) == ("double", "Twice.", 8, 10)
    assert repr(double) == "<Tool double@1 (pure)>"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"preset": "nope"}, ["no preset 'nope'", "irreversible"]),
        ({"preset": "compensable"}, ["says how it is undone", "undo="]),
        ({"preset": "irreversible", "undo": nothing}, ["is not irreversible"]),
        ({"read": nothing}, ["come together"]),
        ({"write": nothing}, ["come together"]),
        ({"read": nothing, "write": nothing, "undo": nothing}, ["two ways"]),
        ({"repeat": "twice"}, ["'twice' is none of free, keyed, once"]),
        ({"target": "{who}"}, ["target='{who}'", "'who', which is no argument", "to, text"]),
        ({"describe": "to {to} {x.y}"}, ["names 'x'"]),
        ({"describe": "{to"}, ["is no template"]),
        ({"cost": "cents"}, ["cost in money", "'cents'"]),
        ({"cost": {"mails": "count"}}, ["cost in mails", "'count'"]),
        ({"undo": lambda receipt: None}, ["its undo wants receipt", "`result`"]),
        ({"undoo": nothing}, ["no option 'undoo'", "Did you mean undo?"]),
        ({"xyzzy": 1}, ["no option 'xyzzy'", "key_ttl"]),
    ],
)
def test_a_mistake_is_found_where_the_tool_is_declared(said, words):
    """Not in the middle of a step."""

    def send(to, text):
        """Sends."""

    with pytest.raises(errors.BadTool) as caught:
        declare(send, said.pop("preset", None), **said)
    assert "send" in str(caught.value) or "template" in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_a_transactional_tool_is_not_async():
    async def write(text):
        """Writes."""

    with pytest.raises(errors.BadTool, match="not async"):
        declare(write, "transactional")


def test_two_undos_of_one_name_are_a_mistake():
    """A plan finds an undo by its name: two functions cannot have it."""

    def undo_it(to):
        """One."""

    def first(to):
        """Sends."""

    def second(to):
        """Sends."""

    declare(first, undo=undo_it)

    def other():
        def undo_it(to):
            """Another."""

        return undo_it

    with pytest.raises(errors.BadTool, match="first has another undo that is called undo_it@1"):
        declare(second, undo=other())
    declare(second, undo=undo_it)
    declare(first, undo=undo_it)  # the module is imported again


def test_an_undo_takes_what_it_names_and_may_take_all():
    """Those of the call's arguments that it names, and `result`; optional ones need not be there."""

    def undo_all(**everything):
        """All."""

    def undo_some(to, result, why="no"):
        """Some."""

    for undo in (undo_all, undo_some):

        def send(to, text):
            """Sends."""

        assert declare(send, undo=undo, name=undo.__name__ + "d").declared.undo is undo


def test_an_undo_may_be_a_tool_or_have_no_name():
    @takeback.tool
    def take_back(to):
        """Takes back."""

    @takeback.tool(undo=take_back)
    def send(to):
        """Sends."""

    @takeback.tool(undo=lambda to: None)
    def post(to):
        """Posts."""

    @takeback.tool(undo=functools.partial(nothing))
    def phone(to):
        """Phones."""

    assert send.declared.undo is take_back.raw
    assert [each.declared.undo_name for each in (send, post, phone)] == [
        "take_back@1", "undo_post@1", "undo_phone@1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("{cents:money}", "$4,200.05"),
        ("{cents:money:EUR}", "€4,200.05"),
        ("{cents:money:CHF}", "CHF 4,200.05"),
        ("{cents:,} for {who[name]}", "420,005 for ada"),
        (None, "send(cents=420005, who={'name': 'ada'})"),
    ],
)
def test_what_a_call_is_called_for_people(template, shown):
    @takeback.tool(describe=template)
    def send(cents, who):
        """Sends."""

    assert send.spec({"cents": 420005, "who": {"name": "ada"}}).shown == shown


def test_money_may_be_negative_and_long_arguments_are_cut():
    @takeback.tool(describe="{cents:money}")
    def credit(cents):
        """Gives."""

    @takeback.tool
    def post(text):
        """Posts."""

    assert credit.spec({"cents": -150}).shown == "-$1.50"
    assert post.spec({"text": "x" * 100}).shown == "post(text='" + "x" * 36 + "…)"


def test_a_template_that_does_not_fit_the_arguments_says_so():
    @takeback.tool(describe="to {who[name]}")
    def send(who):
        """Sends."""

    with pytest.raises(errors.BadTool, match="does not fit these arguments"):
        send.spec({"who": 3})


def test_arguments_are_recorded_by_name_with_their_defaults():
    """However they were given: positionally, by name, or not at all."""

    @takeback.tool
    def send(to, *more, text="hi", **rest):
        """Sends."""

    assert send.bind(("a", "b"), {"x": 1}) == {"to": "a", "more": ["b"], "text": "hi", "x": 1}

    @takeback.tool
    def plain(to, text="hi"):
        """Sends."""

    hashed = {
        plain.spec(plain.bind(*given)).hashed for given in [(("a",), {}), ((), {"to": "a", "text": "hi"})]
    }
    assert len(hashed) == 1


def test_an_argument_named_like_a_methods_object_is_recorded():
    """`self` is left out where it is a method's object, and nowhere else."""

    @takeback.tool
    def classify(cls):
        """An ordinary argument with that name."""

    assert classify.bind(("first",), {}) == {"cls": "first"}

    class Desk:
        @takeback.tool
        def sort(self, item):
            """A method."""

    assert Desk.sort.bind((Desk(), "x"), {}) == {"item": "x"}


def test_the_registry_lists_what_is_declared_as_plain_data():
    @takeback.tool(undo=nothing, target="{to}", cost="cents", name="list_me", requires_approval=True)
    def send(to, cents):
        """Sends."""

    (said,) = [each for each in registry.listed() if each["name"] == "list_me"]
    assert said == {
        "name": "list_me", "version": "1", "preset": "compensable", "repeat": "once", "undo": "nothing@1",
        "undo_safe": True, "probe": False, "target": "{to}", "cost": {"money": "cents"},
        "requires_approval": True,
    }  # fmt: skip


def test_a_handler_that_is_not_there_says_how_to_bring_it():
    with pytest.raises(errors.HandlerMissing, match=r"no nowhere@7.*--app"):
        registry.tool("nowhere@7")
    with pytest.raises(errors.HandlerMissing, match="no nowhere@7"):
        registry.undoing("nowhere@7")
    assert not registry.has("nowhere@7")


@pytest.mark.parametrize(
    ("hints", "undo", "preset"),
    [
        ({"readOnlyHint": True}, None, "pure"),
        ({"idempotentHint": True}, None, "idempotent"),
        ({"idempotentHint": False}, None, "irreversible"),
        ({}, None, "irreversible"),
        ({"destructiveHint": False}, None, "irreversible"),
        ({}, nothing, "compensable"),
    ],
)
def test_hints_of_an_mcp_server(hints, undo, preset):
    """A hint is a hint: what is not said counts as irreversible."""

    def remote(to):
        """Sends."""

    made = takeback.from_mcp(remote, hints, **({"undo": undo} if undo else {}))
    assert isinstance(made, Tool)
    assert made.declared.preset == preset
