# frozen_string_literal: true

require_relative "../pilotlight"

module Pilotlight
  # For `rackup --server pilotlight`, with `rackup` or Rack 2. Options: those of `Pilotlight.serve`, by `-O threads=4`.
  module Handler
    OPTIONS = { threads: "8", exchanges: "64", max_own: "64", max_upgraded: "1024" }.freeze

    def self.run(app, **options)
      yield self if block_given?
      numbers = OPTIONS.keys.filter_map do |name|
        value = options.transform_keys { |key| key.to_s.downcase.to_sym }[name]
        [name, Integer(value)] if value
      end
      Pilotlight.serve(app, **numbers.to_h)
    end

    def self.valid_options
      OPTIONS.to_h { |name, default| ["#{name}=N", "see the README (#{default})"] }
    end
  end
end

if defined?(Rackup::Handler)
  Rackup::Handler.register(:pilotlight, Pilotlight::Handler)
elsif defined?(Rack::Handler)
  Rack::Handler.register("pilotlight", "Pilotlight::Handler")
end
