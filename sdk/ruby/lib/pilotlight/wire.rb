# frozen_string_literal: true

module Pilotlight
  # A rule is broken: one of docs/spec/pipe.md by the gateway (P-10), or one of this SDK by the application.
  class Violation < StandardError; end

  # The bytes of Pipe/1: frames, heads and fields; no sockets.
  module Wire
    HELLO, WELCOME, REQUEST, RESPONSE, INFO, DATA, TRAILERS, STOP, RESET, PING, PONG, DRAIN, MORE, LOG = *1..14
    CANCELLED, DEADLINE, REFUSED, OVERLOADED, INTERNAL, PROTOCOL, TOO_LARGE = *1..7
    END_FLAG, UPGRADE, IGNORABLE = 0x01, 0x02, 0x80
    HEADER_BYTES, HEAD_BYTES, MAX_FRAME, MAX_HELLO, MAX_TEXT = 8, 8, 65_536, 4_096, 1_024
    MINOR = 1 # P-37
    DROPPED = %w[connection keep-alive proxy-connection te transfer-encoding upgrade expect host] # P-9
              .to_h { |name| [name, true] }.freeze
    MAX_NAMES = 512 # names of fields that are remembered
    NAMES = {} # rubocop:disable Style/MutableConstant
    LEVELS = %i[error warn info debug trace].freeze

    module_function

    # Raises Violation with `rule` unless the condition holds.
    def check(condition, rule, *facts)
      raise Violation, format(rule, *facts) unless condition
    end

    # A whole frame.
    def frame(kind, flags, exchange, payload = "")
      [payload.bytesize, kind, flags, exchange].pack("VCCv") << payload.b
    end

    # A RESET frame.
    def reset(exchange, code, text, retry_after = 0)
      frame(RESET, 0, exchange, [code, 0, (retry_after * 1000).to_i].pack("vvV") << cut(text))
    end

    # `text` in at most MAX_TEXT bytes.
    def cut(text)
      text = text.to_s.dup.force_encoding("UTF-8")
      (text.bytesize > MAX_TEXT ? text.byteslice(0, MAX_TEXT) : text).scrub("").b
    end

    # The strings of a head: `fixed` ones, then name, value, name, value … (P-8).
    def parse(block, fixed = 0)
      texts = block.split("\0", -1)
      # The last one is what follows the last zero byte: nothing. An empty block has no strings at all.
      fit = (texts.pop || "").empty? && texts.size >= fixed && (texts.size - fixed).even?
      check(fit, "P-8: %d strings, which are not %d and pairs, or no zero byte behind them", texts.size, fixed)
      texts
    end

    # Encodes header fields (a Hash, or pairs), without those that must not cross (P-8, P-9). A value is a String with
    # lines (Rack 2), an Array (Rack 3) or anything with `to_s`. A name that begins with "rack." is the server's.
    def fields(headers, block = String.new)
      texts = block.count("\0")
      named = connection(headers)
      headers.each do |name, values|
        name = NAMES[name] || normal(name.to_s)
        next if name.empty? || named&.include?(name)

        each_value(values) do |value|
          block << name << "\0" << (value.ascii_only? ? value : value.b) << "\0"
          texts += 2
        end
      end
      check(block.count("\0\r\n") == texts, "P-8: a zero byte, CR or LF in %.200p", block)
      check(block.bytesize <= MAX_FRAME - HEAD_BYTES, "P-6: %d bytes of headers do not fit a frame", block.bytesize)
      block
    end

    # A name in lower case; empty if the field is not sent.
    def normal(name)
      lower = name.downcase.b
      lower = "" if DROPPED.key?(lower) || lower.start_with?("rack.")
      NAMES[name] = lower if NAMES.size < MAX_NAMES
      lower
    end

    def each_value(values, &block)
      case values
      when String then values.include?("\n") ? values.each_line("\n", chomp: true, &block) : yield(values)
      when Array then values.each { |value| yield value.to_s }
      else yield values.to_s
      end
    end

    # The names that a `connection` field of the answer has.
    def connection(headers)
      return if headers.respond_to?(:key?) && !headers.key?("connection") && !headers.key?("Connection")

      headers.filter_map { |name, value| value if name.casecmp?("connection") }.join(",").downcase.split(/[\s,]+/)
    end
  end
end
