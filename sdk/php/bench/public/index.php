<?php

header('content-type: application/json');
echo '{"id":42,"pad":"' . str_repeat('x', 182) . '"}';
