#!/usr/bin/env python3
"""Checks the descriptions against themselves, and the generator's tables against the descriptions."""

import unittest

import generate
import methods
import replies
import tables
from model import Model
from patches import PATCHES
from syntax import least


# The patches make what must be given once a set of options, or what may be left out a parameter.
OTHER_ARITY = {"CLIENT KILL", "CLUSTER MIGRATESLOTS", "PUBSUB NUMSUB", "PUBSUB SHARDNUMSUB"}


class Descriptions(unittest.TestCase):
    commands = generate.load()

    def test_arities_fit_the_arguments(self):
        for name, command in self.commands.items():
            if name in OTHER_ARITY or not methods.is_typed(name, self.commands):
                continue
            with self.subTest(name):
                count = len(name.split()) + least(command.get("arguments", []))
                arity = command["arity"]
                self.assertEqual(count, abs(arity), f"{name}: arity {arity}")

    def test_tables_name_commands_that_exist(self):
        for table in (
            tables.CONNECTION_STATE, tables.INTERNAL, tables.HARMLESS, tables.KEYS, tables.BLOCKING, tables.METHODS,
            replies.REPLIES, replies.METHODS, PATCHES, {name for name, _ in tables.SELECTORS},
        ):  # fmt: skip
            self.assertEqual(set(), set(table) - set(self.commands))

    def test_methods_have_different_names(self):
        seen = {}
        for name, command in self.commands.items():
            if methods.is_typed(name, self.commands):
                for method in methods.Typed(name, command).methods:
                    self.assertNotIn(method.name(), seen, name)
                    seen[method.name()] = name

    def test_options_of_one_command_have_different_names(self):
        for name, command in self.commands.items():
            if methods.is_typed(name, self.commands):
                names = [way.name for way in Model(name, command.get("arguments", [])).ways()]
                self.assertEqual(len(names), len(set(names)), (name, names))


if __name__ == "__main__":
    unittest.main()
