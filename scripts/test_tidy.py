"""Tests of what tidy.py finds: modules and rooms in circles, growth, names of tests that no test has."""

from pathlib import Path
from tempfile import TemporaryDirectory

import rust_modules
import slow_tests
import tests_in_sources
import tidy


def graph(**files):
    """Returns the graph of a crate: `a__b` is the file a/b.rs."""
    with TemporaryDirectory() as folder:
        for name, text in files.items():
            file = Path(folder, *name.split("__")).with_suffix(".rs")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return rust_modules.graph(Path(folder))


def modules(**files):
    return [sorted(map("::".join, circle)) for circle in rust_modules.circles(graph(**files))]


def rooms(**files):
    return [sorted(map("::".join, circle)) for circle in rust_modules.circles(rust_modules.rooms(graph(**files)))]


def test_two_modules_that_use_each_other_are_a_circle():
    assert modules(a="use crate::b::{One, two as Two};", b="fn f() { super::a::g() }") == [["a", "b"]]


def test_one_way_is_no_circle():
    assert modules(a="use crate::b::One;", b="use crate::c::Two;", c="") == []


def test_a_parent_that_calls_its_child_and_the_child_are_a_circle():
    assert modules(a="mod b;\nfn f() { b::g() }", a__b="use super::Type;") == [["a", "a::b"]]


def test_a_visibility_and_a_comment_are_no_need():
    assert modules(a="use crate::b::One;", b="pub(in crate::a) struct One; // crate::a") == []


def test_folders_are_in_a_circle_though_their_files_are_not():
    files = {"a__down": "use crate::b::up::One;", "a__low": "", "b__up": "", "b__high": "use crate::a::low::Two;"}
    assert modules(**files) == []
    assert rooms(**files) == [["a", "b"]]


def test_a_folder_and_its_file_are_one_room():
    assert rooms(a="use crate::a::b::One;", a__b="use super::Two;") == []


def test_tests_do_not_count():
    inline = "#[cfg(test)]\nmod tests {\n    use crate::b::One;\n}\n"
    assert modules(a=inline, b="use crate::a::Two;") == []
    assert rooms(a="#[cfg(test)]\nmod tests;\n", a__tests="use crate::b::One;", b="use crate::a::Two;") == []


def test_a_file_goes_on_after_tests_that_are_a_file_of_their_own():
    assert modules(a="#[cfg(test)]\nmod tests;\nuse crate::b::One;", b="use crate::a::Two;") == [["a", "b"]]


def test_a_main_next_to_a_library_is_not_its_root():
    files = {"main": "use crate::a::One;", "a": "use crate::Two;"}
    assert modules(**files) == [["", "a"]]
    assert modules(**files, lib="mod a;\npub struct Two;") == []


def test_only_what_grows_is_refused():
    accepted = {"rooms in circles": {"lab": 29}, "wide lines of Python": 7}
    assert list(tidy.grown({"rooms in circles": {"lab": 28}, "wide lines of Python": 7}, accepted)) == []
    assert list(tidy.grown({"rooms in circles": {"lab": 30}, "wide lines of Python": 8}, accepted)) == [
        "rooms in circles: lab: 30, where 29 was",
        "wide lines of Python: wide lines of Python: 8, where 7 was",
    ]
    assert list(tidy.grown({"rooms in circles": {"cli": 2}}, accepted)) == ["rooms in circles: cli: 2, where none was"]


def test_a_name_in_slow_txt_that_no_test_has_is_stale():
    slow = {
        "end to end": ["test_tidy_none.Tests test_it", "test_pages.Pages test_tasks_limit_memory"],
        "rust": ["pilotlight-resp net::tests::it", "pilotlight-resp::it properties::what_is_written_is_read"],
        "pages in a browser": ["dark, desk: all is read", "dark, desk: files can be read and opened"],
        "a suite that is not sifted": ["a test"],
    }
    assert slow_tests.stale(slow) == [(suite, tests[0]) for suite, tests in slow.items()]


def test_a_rust_test_is_where_its_path_says():
    moved = "everybody_gets_his_own_replies_or_one_failure"
    assert tests_in_sources.of_rust(f"pilotlight-redis engine::lane::state::tests::{moved}")
    assert not tests_in_sources.of_rust(f"pilotlight-redis net::lane::state::tests::{moved}")
    assert not tests_in_sources.of_rust(f"pilotlight-redis::it engine::lane::state::tests::{moved}")


def test_an_inherited_test_is_named_by_the_class_that_runs_it():
    assert tests_in_sources.of_pytest("test_files_traversal.TraversalOverTls test_the_corpus_over_http2")
    assert not tests_in_sources.of_pytest("test_files_traversal.NoSuchClass test_the_corpus_over_http2")
    assert not tests_in_sources.of_pytest("test_files_traversal test_the_corpus_over_http2")
