"""Values between Python peers come back as they were, and nothing on the wire decides what is made of them."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import json
import os
import random
import sys
import typing
import unittest
import uuid
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support  # noqa: F401

from svc._values import codec, tagged
from svc._values.codec import NotJson
from svc._values.tag_hints import alternatives
from svc._values.tagged import BadTag

try:
    import numpy
except ModuleNotFoundError:
    numpy = None
try:
    import pydantic
except ModuleNotFoundError:
    pydantic = None


class Color(enum.Enum):
    RED = "red"
    BOTH = ("a", 1)


class Level(enum.IntEnum):
    LOW = 1


class Mode(str, enum.Enum):
    FAST = "fast"


@dataclasses.dataclass
class Point:
    x: int
    color: Color | None = None


@dataclasses.dataclass(frozen=True)
class Shape:
    name: str
    points: list[Point]
    by_name: dict[str, Point] = dataclasses.field(default_factory=dict)
    area: float = dataclasses.field(init=False, default=0.0)
    COUNT: typing.ClassVar[int] = 3


class Pair(typing.NamedTuple):
    left: int
    right: int


def through(value, annotation=None):
    """To the wire's text and back, as a parameter with that annotation."""
    return tagged.decode(codec.decode(tagged.encode(value)), alternatives(annotation))


UTC = datetime.timezone.utc
VALUES = [
    None, True, 0, -(10**30), 1.5, "", "ä\ud800", [], {}, [1, [2]], {"a": {"b": None}},
    b"", b"\x00\xff", bytearray(b"ab"), (), (1, (2, "x")), {1, 2}, frozenset({"a"}), {(1, 2): {3}}, {1: 2, None: 3},
    datetime.datetime(2024, 2, 29, 1, 2, 3, 4, UTC), datetime.datetime(1, 1, 1), datetime.date(9999, 12, 31),
    datetime.time(23, 59, tzinfo=datetime.timezone(datetime.timedelta(hours=-3))), datetime.timedelta(-1, 2, 3),
    uuid.UUID(int=7), Decimal("1.10"), Decimal("-Infinity"), Decimal("1E+400"), 1 + 2j, complex("inf"), float("inf"),
    {"$svc": 1}, {"$svc": ["bytes", "eA=="]}, {"$svc": {"tagged": True}, "x": 1},
]  # fmt: skip


class RoundTrip(unittest.TestCase):
    def test_every_documented_type_comes_back_equal_and_of_its_type(self):
        for value in VALUES:
            with self.subTest(value=value):
                back = through(value)
                self.assertEqual((back, type(back)), (value, type(value)))
        nan = through([float("nan")])[0]
        self.assertNotEqual(nan, nan)

    def test_any_nesting_of_them_does_too(self):
        chance = random.Random(7)
        hashable = [value for value in VALUES if isinstance(value, collections.abc.Hashable) and value == value]

        def some(depth: int):
            kind = chance.randrange(6 if depth else 1)
            if kind == 0:
                return chance.choice(VALUES)
            inner = [some(depth - 1) for _ in range(chance.randrange(4))]
            if kind == 1:
                return inner
            if kind == 2:
                return tuple(inner)
            keys = chance.sample(hashable, len(inner))
            return dict(zip(keys, inner)) if kind < 5 else {str(key): item for key, item in zip(keys, inner)}

        for _ in range(300):
            value = some(4)
            self.assertEqual(through(value), value)

    def test_what_json_has_is_plain_json(self):
        value = {"a": [1, 2.5, "x", None, True], "b": {}}
        self.assertEqual(json.loads(tagged.encode(value)), value)
        self.assertFalse(tagged.has_tags(tagged.encode(value)))

    def test_subclasses_arrive_as_what_they_derive_from_and_paths_as_texts(self):
        class Text(str):
            pass

        value = [
            Text("a"),
            collections.OrderedDict(a=1),
            collections.defaultdict(list, b=[1]),
            Pair(1, 2),
            Path("/a/b"),
        ]
        self.assertEqual(through(value), ["a", {"a": 1}, {"b": [1]}, (1, 2), "/a/b"])
        self.assertEqual([type(item) for item in through(value)], [str, dict, dict, tuple, str])


class Rebuilding(unittest.TestCase):
    def test_enums_and_dataclasses_are_rebuilt_from_the_annotation(self):
        shape = Shape("s", [Point(1, Color.RED), Point(2)], {"a": Point(3, Color.BOTH)})
        object.__setattr__(shape, "area", 4.0)
        back = through(shape, Shape)
        self.assertEqual((back, back.area), (shape, 4.0))
        self.assertEqual(through([Color.RED, Level.LOW], list[Color | Level]), [Color.RED, Level.LOW])
        self.assertEqual(through({"a": (Point(1), 2)}, dict[str, tuple[Point, int]]), {"a": (Point(1), 2)})
        self.assertEqual(through({Color.RED: 1}, dict[Color, int]), {Color.RED: 1})
        self.assertIs(through(Mode.FAST, typing.Optional[Mode]), Mode.FAST)
        self.assertEqual(through((Point(1),), tuple[Point, ...]), (Point(1),))

    def test_without_an_annotation_they_are_their_value_and_a_dict(self):
        for annotation in (None, typing.Any, object, int, "Point"):
            self.assertEqual(through(Color.BOTH, annotation), ("a", 1))
            self.assertEqual(through(Point(1, Color.RED), annotation), {"x": 1, "color": "red"})

    def test_a_union_of_classes_is_decided_by_the_name_and_a_class_that_does_not_fit_is_refused(self):
        @dataclasses.dataclass
        class Other:
            x: int

        self.assertEqual(through(Point(1), Other | Point), Point(1))
        with self.assertRaisesRegex(BadTag, "cannot be read"):
            through(Point(1), Other)

    def test_no_name_on_the_wire_finds_a_class(self):
        for name in ("os.system", "Popen", "subprocess.Popen", "builtins.eval", "Point"):
            for tag in (["object", name, {"x": 1}], ["enum", name, 1]):
                self.assertIn(tagged.decode({"$svc": tag}), ({"x": 1}, 1))

    def test_what_is_no_tag_is_refused(self):
        for tag in ([], ["nope", 1], {"tagged": True}, "bytes", ["bytes"], ["bytes", 5], ["decimal", "x"], ["dict", [[[], 1]]],
                    ["set", [[1]]], ["timedelta", 10**20, 0, 0], ["ndarray", "|O8", [1], ""], ["datetime", "x"], [["a"]]):  # fmt: skip
            with self.subTest(tag=tag), self.assertRaises(BadTag):
                tagged.decode([{"$svc": tag}])


class Refused(unittest.TestCase):
    def test_the_message_names_the_place_inside_the_value(self):
        for value, place in (
            (object(), "result"),
            ({"items": [1, {"image": object()}]}, 'result["items"][1]["image"]'),
            ({"items": [1, 2, 3, Shape("s", [object()])]}, 'result["items"][3].points[0]'),
            ((1, {2: lambda: 1}), "result[1][2]"),
        ):
            for encode in (codec.encode, tagged.encode):
                with self.subTest(place=place, encode=encode.__module__), self.assertRaises(NotJson) as caught:
                    encode(value)
                self.assertTrue(str(caught.exception).startswith(f"{place}: "), str(caught.exception))

    def test_a_value_that_holds_itself_is_refused(self):
        loop = []
        loop.append(loop)
        with self.assertRaisesRegex(NotJson, "holds itself"):
            tagged.encode(loop)


@unittest.skipIf(numpy is None, "numpy is not installed here")
class Arrays(unittest.TestCase):
    def test_arrays_and_scalars_come_back_with_type_and_shape(self):
        for array in (
            numpy.arange(6, dtype="<i4").reshape(2, 3), numpy.array(3.5), numpy.zeros((0, 4)), numpy.array(["ab", "c"]),
            numpy.array([True, False]), numpy.asfortranarray(numpy.ones((2, 3), "f4")), numpy.array(["2024-01-01"], "M8[D]"),
            numpy.arange(10)[::2],
        ):  # fmt: skip
            back = through({"a": array})["a"]
            numpy.testing.assert_array_equal(back, array)
            self.assertEqual((back.dtype, back.shape), (array.dtype, array.shape))
            self.assertTrue(back.flags.writeable)
        for scalar in (numpy.float64(1.5), numpy.int32(7), numpy.bool_(True), numpy.datetime64("2024-01-01")):
            back = through([scalar])[0]
            self.assertEqual((back, type(back)), (scalar, type(scalar)))

    def test_for_everybody_else_they_are_lists_and_numbers(self):
        value = {"a": numpy.arange(4).reshape(2, 2), "n": numpy.float32(0.5), "i": numpy.int64(3)}
        self.assertEqual(json.loads(codec.encode(value)), {"a": [[0, 1], [2, 3]], "n": 0.5, "i": 3})

    def test_arrays_of_objects_are_refused(self):
        with self.assertRaisesRegex(NotJson, r"^result"):
            tagged.encode([numpy.array([object()])])


@unittest.skipIf(pydantic is None, "pydantic is not installed here")
class Models(unittest.TestCase):
    def test_a_model_is_rebuilt_and_validated_from_the_annotation(self):
        class Item(pydantic.BaseModel):
            name: str
            at: datetime.date | None = None

        item = Item(name="pen", at=datetime.date(2024, 1, 2))
        self.assertEqual(through([item], list[Item]), [item])
        self.assertEqual(through(item), {"name": "pen", "at": "2024-01-02"})
        with self.assertRaisesRegex(BadTag, "valid string"):
            tagged.decode({"$svc": ["object", "Item", {"name": 5}]}, (Item,))


if __name__ == "__main__":
    unittest.main()
