# frozen_string_literal: true

# What sdk/conformance/cpu.py measures: 200 bytes of JSON.
body = %({"id":42,"pad":"#{'x' * 182}"}).freeze
run ->(_env) { [200, { "content-type" => "application/json", "content-length" => body.bytesize.to_s }, [body]] }
