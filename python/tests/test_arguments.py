"""Arguments of queue-based functions become what the annotations say, as those of routes do."""

from __future__ import annotations

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import LauncherTest

from svc._runtime.loader import Callable

TYPED = """
from __future__ import annotations
import enum
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Optional

class Color(enum.Enum):
    RED = "red"

@dataclass
class Item:
    name: str
    price: float = 1.0
    parts: Optional[list[Item]] = None

def run(item: Item, color: Color, at: datetime, count: int, many: list[Item], note: Optional[str] = None):
    kinds = [type(value).__name__ for value in (item, color, at, count, many[0])]
    return {"kinds": kinds, "price": item.price, "year": at.year, "count": count, "note": note}
"""
GIVEN = {"item": {"name": "a", "price": "2.5", "parts": [{"name": "c", "parts": [{"name": "d"}]}]}, "color": "red", "at": "2026-01-02T03:04:05Z", "count": "5", "many": [{"name": "b"}]}


class TypedArguments(LauncherTest):
    def test_a_function_gets_what_its_annotations_say(self):
        link = self.ready(TYPED)
        self.assertEqual(
            link.run(1, GIVEN).json,
            {"kinds": ["Item", "Color", "datetime", "int", "Item"], "price": 2.5, "year": 2026, "count": 5, "note": None},
        )

    def test_what_does_not_fit_is_one_failure_that_names_every_field(self):
        link = self.ready(TYPED)
        failure = link.run(1, {**GIVEN, "count": "five", "item": {"price": 1}, "many": [{"name": 3}]}).json
        self.assertEqual(failure["error_type"], "TypeError")
        message, _, signature = failure["error_message"].partition("; the function is ")
        self.assertEqual(
            message,
            "item.name: Field required; "
            "count: Input should be a valid integer, unable to parse string as an integer; "
            "many[0].name: Input should be a valid string",
        )
        self.assertRegex(signature, r"^run\(item: Item, color: Color")

    def test_methods_of_a_class_convert_too(self):
        link = self.ready("class Model:\n    def predict(self, n: int):\n        return n + 1\n", "Model", kind="class")
        self.assertEqual(link.run(1, {"n": "4"}, method="predict").json, 5)

    def test_a_call_from_python_passes_its_objects_as_they_are(self):
        link = self.ready("def run(name: str):\n    return name\n")
        self.assertEqual(link.run(1, {"name": 5, "$svc": {"tagged": True}}).json, 5)
        failure = link.run(2, {"name": 5, "$svc": {"tagged": True, "convert": True}}).json
        self.assertRegex(failure["error_message"], "^name: Input should be a valid string")

    def test_a_method_may_stand_in_the_input_as_callers_of_the_same_family_have_it(self):
        code = "class Model:\n    def predict(self, n=1):\n        return n\n    def train(self, method):\n        return method\n"
        link = self.ready(code, "Model", kind="class")
        self.assertEqual(link.run(1, {"method": "predict", "n": 4}).json, 4)
        self.assertEqual(link.run(2, {"method": "predict", "__empty": True}).json, 1)
        # A parameter of that name stays an argument, and what names no method is told.
        self.assertEqual(link.run(3, {"method": "train"}, method="train").json, "train")
        self.assertRegex(link.run(4, {"method": "train"}).json["error_message"], "choose one")
        self.assertRegex(link.run(5, {"method": ["predict"]}).json["error_message"], "choose one")

    def test_the_only_method_may_be_named_too(self):
        one = self.ready("class Model:\n    def predict(self, n=1):\n        return n\n", "Model", kind="class")
        self.assertEqual(one.run(1, {"method": "predict"}).json, 1)
        self.assertRegex(one.run(2, {"method": "other"}).json["error_message"], "unknown argument 'method'")

    def test_empty_stands_for_no_arguments(self):
        link = self.ready("def run(n=1, **more):\n    return [n, sorted(more)]\n")
        self.assertEqual(link.run(1, {"__empty": True}).json, [1, []])

    def test_a_parameter_named_so_is_an_argument(self):
        own = self.ready("def run(__empty):\n    return __empty\n")
        self.assertEqual(own.run(1, {"__empty": 5}).json, 5)


class Plans(unittest.TestCase):
    def test_plain_annotations_and_none_need_no_converter_and_no_import(self):
        def plain(a, b: str, c: int, d: dict, e: object = None, f: dict[str, int] | None = None):
            pass

        def nothing(a, b=1, **more):
            pass

        self.assertIsNone(Callable("nothing", nothing).conversion)
        made = Callable("plain", plain).conversion
        self.assertEqual([(name, kind) for name, kind, _ in made._members], [("b", str), ("c", int), ("d", dict), ("f", None)])

    def test_none_stays_where_it_is_the_default(self):
        def run(name: str = None):
            pass

        given = {"name": None}
        Callable("run", run).conversion.convert(given)
        self.assertEqual(given, {"name": None})


if __name__ == "__main__":
    unittest.main()
