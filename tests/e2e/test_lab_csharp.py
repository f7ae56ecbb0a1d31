"""The peers in C# are parsed by Mono's compiler: no .NET SDK can be installed where this is tested."""

import subprocess
import unittest

from harness import ROOT
from programs import needs


@needs("mcs")
class Syntax(unittest.TestCase):
    def test_every_source(self):
        sources = list((ROOT / "lab" / "peers").glob("*/*/*.cs"))
        self.assertGreaterEqual(len(sources), 2)
        for source in sources:
            with self.subTest(source.name):
                done = subprocess.run(["mcs", "--parse", source], capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
