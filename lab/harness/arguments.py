"""Kinds of arguments that the commands of the lab share."""
import argparse

from .paths import RESULTS


def positive(kind):
    """A number of this kind that is more than 0."""
    def parse(text):
        value = kind(text)
        if value <= 0:
            raise argparse.ArgumentTypeError("must be more than 0")
        return value
    return parse


def names_of(what, known):
    """`a,b`: some of the names that there are."""
    def parse(text):
        names = text.split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"no {what} {', '.join(unknown)}; there are {', '.join(known)}")
        return names
    return parse


def add_common(parser, name, rounds, secs):
    """How much is measured, and where the report goes."""
    parser.add_argument("--rounds", type=positive(int), default=rounds)
    parser.add_argument("--secs", type=positive(float), default=secs, help="length of each measurement, seconds")
    parser.add_argument("--out", metavar="DIR", default=RESULTS / name, help="the folder for report.json (default: target/lab-results/%s)" % name)
