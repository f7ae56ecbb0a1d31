"""`pilotlight lab php`: a real, short run. What was measured is not looked at, but what is made of it."""

import unittest

import test_lab_report
from harness import setUpModule
from test_php import CGI, FPM, IS_ROOT
from wordpress import IS_INSTALLED

__all__ = ["setUpModule"]

STARTED = ["php-fpm", "php-fpm-by-hand", "php-cgi", "php-cgi-by-hand", "php-fpm (again)"]


class Php(test_lab_report.Lab):
    @unittest.skipUnless(IS_ROOT, "not here: as root")
    @unittest.skipUnless(IS_INSTALLED and CGI and FPM, "WordPress, PHP or MariaDB is not installed")
    def test_pages_cold_starts_and_idle_sites(self):
        self.folder.chmod(0o755)  # PHP is another user
        few = ["--rounds", "1", "--pages", "4", "--sites", "3"]
        self.lab("php", *few, "--groups", "page,cold-word,sites", "--noisy-anyway")
        [found] = self.report()["experiments"]
        page, word, sites = found["groups"]
        variants = [[variant["id"] for variant in group["variants"]] for group in (page, word, sites)]
        self.assertEqual(variants, [["pilotlight", "nginx", "pilotlight (again)"], STARTED, ["never-asked", "asked-once"]])
        self.assertEqual([v["failed"] for g in found["groups"] for v in g["variants"] if v["failed"]], [])
        for variant in page["variants"]:
            self.assertEqual(set(variant["cpu_us"]), {"web server", "PHP"})
            self.assertAlmostEqual(variant["summary"]["cpu-us"]["median"], sum(variant["cpu_us"].values()), places=3)
        added = [(asked["metric"], asked["one"], asked["other"], asked["difference"]) for asked in word["comparisons"]]
        programs = [(metric, one, f"{one}-by-hand", True) for one in ("php-fpm", "php-cgi") for metric in ("cold-ms", "cpu-us")]
        self.assertEqual(added, programs)
        self.assertEqual([figure["wanted"] for figure in found["figures"]], ["≤ 1 ×", *["≤ 6144 bytes"] * 2, *["≤ 0"] * 2])
        self.assertEqual([figure["measured"]["median"] for figure in found["figures"][-2:]], [0, 0], "no process is left")

    def test_what_it_needs_is_said(self):
        listed = self.lab("php", "--list").stdout
        self.assertIn("php: PHP behind the gateway and behind nginx", listed)
        if not (IS_ROOT and IS_INSTALLED and CGI and FPM):
            self.assertRegex(listed, "run it as root|scripts/setup.sh release")


if __name__ == "__main__":
    unittest.main()
