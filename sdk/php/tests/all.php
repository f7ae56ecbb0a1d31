<?php

declare(strict_types=1);

/** php tests/all.php [part of a test's name] */

require __DIR__ . '/ServeTest.php';
require __DIR__ . '/AcceptTest.php';

exit(ServeTest::run() + AcceptTest::run() === 0 ? 0 : 1);
