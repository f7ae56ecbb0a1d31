module pilotlight.example/go

go 1.19
