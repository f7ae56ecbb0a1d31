<?php

declare(strict_types=1);

namespace Pilotlight;

/** What PHP's web servers put into superglobals. @internal */
final class Globals
{
    private const MAX_PARTS = 1_000; // of a multipart body
    /** @var list<string> temporary files of the request before */
    private static array $files = [];
    private static ?array $server = null;

    public static function fill(Request $request): void
    {
        array_map(fn (string $file) => @unlink($file), self::$files);
        self::$server ?? register_shutdown_function(fn () => array_map(fn (string $file) => @unlink($file), self::$files));
        self::$server ??= $_SERVER;
        self::$files = $_POST = $_FILES = $_COOKIE = [];
        $_SERVER = self::server($request) + self::$server;
        parse_str($request->query, $_GET);
        foreach (explode(';', $request->header('cookie') ?? '') as $pair) {
            [$name, $value] = explode('=', $pair, 2) + [1 => ''];
            trim($name) === '' || $_COOKIE += [trim($name) => rawurldecode(trim($value))];
        }
        [$type, $parameters] = explode(';', $request->header('content-type') ?? '', 2) + [1 => ''];
        match ($request->method === 'POST' ? strtolower(trim($type)) : '') {
            'application/x-www-form-urlencoded' => parse_str($request->body(), $_POST),
            'multipart/form-data' => self::multipart($request->body(), $parameters),
            default => null,
        };
        $_REQUEST = $_POST + $_GET;
    }

    private static function server(Request $request): array
    {
        [$name, $port] = preg_match('/^(.*?)(?::(\d+))?$/s', $request->authority, $found) ? [$found[1], $found[2] ?? ''] : ['', ''];
        $colon = strrpos($request->peer, ':');
        $server = [
            'REQUEST_METHOD' => $request->method, 'REQUEST_URI' => $request->target, 'QUERY_STRING' => $request->query,
            'PATH_INFO' => $request->path, 'SERVER_PROTOCOL' => $request->protocol, 'HTTP_HOST' => $request->authority,
            'SERVER_NAME' => $name, 'SERVER_PORT' => $port ?: ($request->scheme === 'https' ? '443' : '80'),
            'REQUEST_SCHEME' => $request->scheme, 'GATEWAY_INTERFACE' => 'CGI/1.1', 'SERVER_SOFTWARE' => 'pilotlight',
            'REMOTE_ADDR' => trim(substr($request->peer, 0, (int) $colon), '[]'),
            'REMOTE_PORT' => $colon === false ? '' : substr($request->peer, $colon + 1),
            'REQUEST_TIME' => time(), 'REQUEST_TIME_FLOAT' => microtime(true),
        ] + ($request->scheme === 'https' ? ['HTTPS' => 'on'] : []);
        foreach ($request->headers() as $name => $_) {
            $name = (string) $name;
            if (!str_contains($name, '_')) { // it could pass for another
                $key = strtoupper(strtr($name, '-', '_'));
                $server[in_array($name, ['content-type', 'content-length'], true) ? $key : "HTTP_$key"] = $request->header($name);
            }
        }
        return $server;
    }

    /** RFC 7578. A file goes to a temporary one, which lives until the next request. */
    private static function multipart(string $body, string $parameters): void
    {
        if (!preg_match('/boundary="?([^";]+)/i', $parameters, $found)) {
            return;
        }
        $parts = explode("\r\n--$found[1]", "\r\n$body", self::MAX_PARTS);
        $posts = $files = [];
        foreach (array_slice($parts, 1) as $part) {
            [$head, $data] = explode("\r\n\r\n", $part, 2) + [1 => null];
            if ($data === null || !preg_match('/^content-disposition:.*?\bname="([^"]*)"/im', $head, $name)) {
                continue; // the end, or no part of a form
            }
            if (!preg_match('/^content-disposition:.*?\bfilename="([^"]*)"/im', $head, $file)) {
                $posts[] = urlencode($name[1]) . '=' . urlencode($data);
                continue;
            }
            $type = preg_match('/^content-type:\s*([^\r\n]*)/im', $head, $found) ? $found[1] : '';
            [$base, $rest] = preg_match('/^([^\[]*)(\[.*)?$/s', $name[1], $cut) ? [$cut[1], $cut[2] ?? ''] : [$name[1], ''];
            foreach (self::file(basename($file[1]), $type, $data) as $key => $value) {
                $files[] = urlencode("{$base}[$key]$rest") . '=' . urlencode((string) $value);
            }
        }
        parse_str(implode('&', $posts), $_POST);
        parse_str(implode('&', $files), $_FILES);
        foreach ($_FILES as &$entry) {
            foreach (['error', 'size'] as $key) {
                $numbers = [$entry[$key]];
                array_walk_recursive($numbers, function (&$value) { $value = (int) $value; });
                [$entry[$key]] = $numbers;
            }
        }
    }

    /** An entry of $_FILES. */
    private static function file(string $name, string $type, string $data): array
    {
        if ($name === '') {
            return ['name' => '', 'type' => '', 'tmp_name' => '', 'error' => UPLOAD_ERR_NO_FILE, 'size' => 0];
        }
        $path = self::$files[] = (string) tempnam(sys_get_temp_dir(), 'php');
        $isWritten = file_put_contents($path, $data) === strlen($data);
        $error = $isWritten ? UPLOAD_ERR_OK : UPLOAD_ERR_CANT_WRITE;
        return ['name' => $name, 'type' => $type, 'tmp_name' => $path, 'error' => $error, 'size' => strlen($data)];
    }
}
