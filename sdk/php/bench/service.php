<?php

declare(strict_types=1);

/** What sdk/conformance/cpu.py measures: 200 bytes of JSON. */

use Pilotlight\Request;

require __DIR__ . '/../pilotlight.php';

$body = '{"id":42,"pad":"' . str_repeat('x', 182) . '"}';
$handler = fn (Request $request) => [200, ['content-type' => 'application/json'], $body];
if (($argv[1] ?? '') === 'one') { // one exchange at a time
    $instance = new Pilotlight\Instance();
    while ($request = $instance->accept()) {
        $request->respond(...$handler($request));
    }
} else {
    Pilotlight\serve($handler);
}
