# frozen_string_literal: true

Gem::Specification.new do |spec|
  spec.name = "pilotlight"
  spec.version = File.read("#{__dir__}/lib/pilotlight.rb")[/VERSION = "(.+)"/, 1]
  spec.summary = "Rack applications behind the Pilotlight gateway, over a Unix socket"
  spec.authors = ["The Pilotlight developers"]
  spec.licenses = %w[MIT Apache-2.0]
  spec.required_ruby_version = ">= 3.1"
  spec.files = Dir["lib/**/*.rb", "exe/*", "README.md"]
  spec.bindir = "exe"
  spec.executables = ["pilotlight-rackup"]
end
