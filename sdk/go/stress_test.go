package pilotlight

import (
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// everything does what its target says.
func everything(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/echo":
		_, _ = io.Copy(w, r.Body)
	case "/large":
		_, _ = w.Write(bytes.Repeat([]byte("x"), 200_000))
	case "/panic":
		panic("asked for")
	case "/refuse":
		_ = Refuse(w)
	case "/wait":
		<-r.Context().Done()
	case "/switch":
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\n")
			conn.Close()
		}
	default:
		fmt.Fprint(w, r.URL.Path)
	}
}

// Whatever comes, Serve returns when the gateway is gone; the race detector and panics tell of what goes wrong.
func TestNonsense(t *testing.T) {
	targets := []string{"/echo", "/large", "/panic", "/refuse", "/wait", "/switch", "/x", "bad target"}
	for seed := int64(0); seed < 60; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			chance := rand.New(rand.NewSource(seed))
			g := start(t, handle(everything))
			g.shared.send(typeMore, 0, 0, string([]byte{1, 0, 1, 0, 3, 0, 0, 0}))
			p := g.accept("own")
			if chance.Intn(2) == 0 {
				p = g.shared
			}
			go func() { // the answers, which nobody looks at
				for {
					answer, err := g.listener.Accept()
					if err != nil {
						return
					}
					go io.Copy(io.Discard, answer)
				}
			}()
			go io.Copy(io.Discard, p.sock)
			flags := []byte{0, 1, 1, 1, 2, 3, 0x80, 0xff}
			for i := 1; i < 12; i++ {
				body := strings.Repeat("y", []int{0, 1, 60_000}[chance.Intn(3)])
				request := ask("POST", targets[chance.Intn(len(targets))], body, "upgrade: echo")
				frames := encode(typeRequest, flags[chance.Intn(len(flags))], uint16(1+chance.Intn(i)), request)
				noise := make([]byte, []int{0, 4, 8, 300}[chance.Intn(4)])
				chance.Read(noise)
				kind, flags := byte(chance.Intn(16)), flags[chance.Intn(len(flags))]
				frames = append(frames, encode(kind, flags, uint16(chance.Intn(i)), string(noise))...)
				p.sock.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)) // a body that nobody reads
				if _, err := p.sock.Write(frames); err != nil {
					break // it has closed: it may
				}
			}
			g.shared.sock.Close()
			p.sock.Close()
			_ = g.ends()
		})
	}
}

// Many exchanges of all sorts at once, with cancels among them: each has one final frame.
func TestEveryExchangeEnds(t *testing.T) {
	g := start(t, &Server{Handler: http.HandlerFunc(everything), Exchanges: 512})
	var ended sync.WaitGroup
	finals := make(chan uint16, 600)
	final := func(p *peer) {
		for {
			f, err := p.any()
			if err != nil {
				return
			}
			if f.kind == typeReset || f.flags&flagEnd != 0 {
				finals <- f.id
			}
		}
	}
	ended.Add(1)
	go func() { defer ended.Done(); final(g.shared) }()
	go func() {
		for {
			p, err := g.tryAccept()
			if err != nil {
				return
			}
			go final(p)
		}
	}()
	const count = 400
	targets := []string{"/x", "/large", "/panic", "/refuse", "/wait", "/echo"}
	for id := uint16(1); id <= count; id++ {
		g.shared.request(id, "POST", targets[int(id)%len(targets)])
		if int(id)%len(targets) == 4 || id%7 == 0 { // P-26; also for those that have ended
			g.shared.send(typeReset, 0, id, "\x01\x00\x00\x00\x00\x00\x00\x00")
		}
	}
	seen := map[uint16]int{}
	for i := 0; i < count; i++ {
		select {
		case id := <-finals:
			if seen[id]++; seen[id] > 1 {
				t.Fatalf("exchange %d has ended twice", id)
			}
		case <-time.After(within):
			t.Fatalf("%d of %d exchanges have ended", i, count)
		}
	}
	g.shared.send(typeDrain, 0, 0, "\x00\x00\x00\x00")
	equal(t, "Serve", g.ends(), nil)
	ended.Wait()
}
