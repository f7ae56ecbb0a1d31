# frozen_string_literal: true

require "socket"
require "stringio"
require_relative "pilotlight/wire"
require_relative "pilotlight/link"
require_relative "pilotlight/request"
require_relative "pilotlight/service"
require_relative "pilotlight/rack"

# Answers HTTP requests for the Pilotlight gateway over Pipe/1: any Rack application, no web server, no dependency.
module Pilotlight
  VERSION = "0.1.0"
  NOT_STARTED = <<~TEXT
    pilotlight: PILOTLIGHT_SOCKET is not set.
    The gateway starts this program; name it in pilotlight.toml:

        [services.hello]
        command = ["ruby", "hello.rb"]
        transport = "pipe"
  TEXT

  class << self
    # Answers requests with a Rack application until the gateway, SIGTERM or SIGINT ends the service; then returns.
    #
    # `threads` is how many requests run at once on a shared connection, of which the gateway asks for one for each of
    # its workers; streams do not count. `exchanges` is how many requests such a connection takes before they are
    # answered, `max_own` how many large or streamed requests run at once (1–4096 each), `max_upgraded` how many
    # connections may have switched to another protocol. Call it in the main thread, once.
    def serve(app = nil, threads: 8, exchanges: 64, max_own: 64, max_upgraded: 1024, &block)
      path, token = ENV.values_at("PILOTLIGHT_SOCKET", "PILOTLIGHT_TOKEN")
      unless path && token
        $stderr.puts NOT_STARTED
        exit 2
      end
      service = Service.new(Gateway.new(app || block), path: path, token: token, threads: threads, exchanges: exchanges,
                                                       max_own: max_own, max_upgraded: max_upgraded)
      status = service.run
      exit status unless status.zero?
    end
  end
end
