package pilotlight

import (
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A small gateway's side over a real Unix socket.

const within = 20 * time.Second

type gateway struct {
	t        *testing.T
	listener *net.UnixListener
	served   chan error
	shared   *peer
}

// A peer is a connection that the service has dialled.
type peer struct {
	t     *testing.T
	sock  *net.UnixConn
	hello string
	bytes []byte
	reads int
}

type got struct {
	kind, flags byte
	id          uint16
	payload     []byte
	status      int
	fields      []string
	body        string
}

func (g got) get(name string) string {
	for i := 0; i+1 < len(g.fields); i += 2 {
		if g.fields[i] == name {
			return g.fields[i+1]
		}
	}
	return ""
}

func start(t *testing.T, server *Server) *gateway {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PILOTLIGHT_SOCKET", path)
	t.Setenv("PILOTLIGHT_TOKEN", strings.Repeat("ab", 16))
	if server.ErrorLog == nil {
		server.ErrorLog = log.New(io.Discard, "", 0)
	}
	g := &gateway{t: t, listener: listener, served: make(chan error, 1)}
	go func() { g.served <- server.Serve() }()
	g.shared = g.accept("shared")
	t.Cleanup(func() {
		g.shared.sock.Close()
		listener.Close()
	})
	return g
}

func handle(f http.HandlerFunc) *Server { return &Server{Handler: f} }

// tryAccept takes the next connection and welcomes it.
func (g *gateway) tryAccept() (*peer, error) {
	sock, err := g.listener.AcceptUnix()
	if err != nil {
		return nil, err
	}
	p := &peer{t: g.t, sock: sock}
	hello, err := p.any()
	if err != nil {
		return nil, err
	}
	p.hello = string(hello.payload)
	_, err = sock.Write(encode(typeWelcome, 0, 0, "PIPE/1\nworker=3\nmax_frame=65536\nminor=1\n"))
	return p, err
}

// accept takes the next connection, welcomes it, and checks its kind.
func (g *gateway) accept(kind string) *peer {
	g.t.Helper()
	g.listener.SetDeadline(time.Now().Add(within))
	p, err := g.tryAccept()
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { p.sock.Close() })
	if !strings.Contains(p.hello, "\nkind="+kind+"\n") {
		g.t.Fatalf("HELLO of another kind than %s: %q", kind, p.hello)
	}
	return p
}

func (g *gateway) own() *peer {
	g.t.Helper()
	g.shared.send(typeMore, 0, 0, string([]byte{1, 0, 1, 0, 3, 0, 0, 0}))
	return g.accept("own")
}

func (g *gateway) ends() error {
	g.t.Helper()
	select {
	case err := <-g.served:
		return err
	case <-time.After(within):
		g.t.Fatal("Serve did not return")
		return nil
	}
}

func encode(kind, flags byte, id uint16, payload string) []byte {
	f := frame{kind: kind, flags: flags, id: id, head: []byte(payload)}
	return f.appendTo(nil)
}

func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.sock.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) send(kind, flags byte, id uint16, payload string) {
	p.t.Helper()
	p.write(encode(kind, flags, id, payload))
}

// ask is the payload of a REQUEST; fields are `name: value`.
func ask(method, target, body string, fields ...string) string {
	list := []string{method, "http", "test.local", target, "HTTP/1.1", "127.0.0.1:5000", "req-1"}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		list = append(list, name, value)
	}
	head := strings.Join(list, "\x00") + "\x00"
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(head)))
	return string(b) + "\x00\x00\x00\x00" + head + body
}

func (p *peer) request(id uint16, method, target string, fields ...string) {
	p.t.Helper()
	p.send(typeRequest, flagEnd, id, ask(method, target, "", fields...))
}

// any is the next frame, whatever it is.
func (p *peer) any() (g got, err error) {
	for len(p.bytes) < headerBytes || len(p.bytes) < headerBytes+int(binary.LittleEndian.Uint32(p.bytes)) {
		buffer := make([]byte, 1<<18)
		n, err := p.sock.Read(buffer)
		if err != nil {
			return g, err
		}
		p.reads++
		p.bytes = append(p.bytes, buffer[:n]...)
	}
	size := headerBytes + int(binary.LittleEndian.Uint32(p.bytes))
	g = got{kind: p.bytes[4], flags: p.bytes[5], id: binary.LittleEndian.Uint16(p.bytes[6:]), payload: p.bytes[headerBytes:size]}
	p.bytes = p.bytes[size:]
	if g.kind == typeResponse || g.kind == typeInfo {
		head := headerBytes + binary.LittleEndian.Uint32(g.payload)
		g.status = int(binary.LittleEndian.Uint16(g.payload[4:]))
		g.fields, g.body = strings.Split(string(g.payload[headerBytes:head]), "\x00"), string(g.payload[head:])
	}
	if g.kind == typeTrailers {
		g.flags |= flagEnd
	}
	return g, nil
}

// next is the next frame, which has to be of this type.
func (p *peer) next(kind byte) got {
	p.t.Helper()
	p.sock.SetReadDeadline(time.Now().Add(within))
	g, err := p.any()
	if err != nil {
		p.t.Fatalf("waiting for type %d: %v", kind, err)
	}
	if g.kind != kind {
		p.t.Fatalf("type %d (%q), expected %d", g.kind, g.payload, kind)
	}
	return g
}

func (p *peer) raw(count int) string {
	p.t.Helper()
	p.sock.SetReadDeadline(time.Now().Add(within))
	buffer := make([]byte, count)
	n := copy(buffer, p.bytes)
	p.bytes = p.bytes[n:]
	if _, err := io.ReadFull(p.sock, buffer[n:]); err != nil {
		p.t.Fatal(err)
	}
	return string(buffer)
}

func (p *peer) ends() {
	p.t.Helper()
	p.sock.SetReadDeadline(time.Now().Add(within))
	if n, err := p.sock.Read(make([]byte, 1)); err != io.EOF {
		p.t.Fatalf("%d bytes, %v; expected the end of the stream", n, err)
	}
}

func equal(t *testing.T, what string, actual, expected any) {
	t.Helper()
	if a, e := fmt.Sprint(actual), fmt.Sprint(expected); a != e {
		t.Fatalf("%s is %q, expected %q", what, a, e)
	}
}
