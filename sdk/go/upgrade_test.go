package pilotlight

import (
	"io"
	"net/http"
	"testing"
)

const offer = "upgrade: echo, other"

func upgrading(t *testing.T, server *Server, switcher http.HandlerFunc) (*gateway, *peer) {
	server.Handler = switcher
	g := start(t, server)
	o := g.own()
	o.send(typeRequest, flagEnd|flagUpgrade, 9, ask("GET", "/", "", offer))
	return g, o
}

// echoes checks that the connection has switched.
func echoes(t *testing.T, g *gateway, o *peer) {
	t.Helper()
	f := o.next(typeResponse)
	equal(t, "switch", []any{f.status, f.get("upgrade"), f.get("connection"), f.flags}, "[101 echo  2]")
	o.write([]byte("\x00hello"))
	equal(t, "bytes", o.raw(6), "\x00hello")
	g.shared.send(typeDrain, 0, 0, "\x00\x00\x00\x00") // P-43
	o.write([]byte("still"))
	equal(t, "bytes", o.raw(5), "still")
	_ = o.sock.CloseWrite()
	o.ends()
	equal(t, "Serve", g.ends(), nil)
}

func TestSwitchByTextAsGorillaDoes(t *testing.T) {
	g, o := upgrading(t, &Server{}, func(w http.ResponseWriter, r *http.Request) {
		equal(t, "connection", r.Header.Get("Connection"), "Upgrade")
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConn")
		_, _ = io.WriteString(conn, "ection: Upgrade\r\n\r\n")
		go func() { // the handler may return before
			_, _ = io.Copy(conn, conn)
			conn.Close()
		}()
	})
	echoes(t, g, o)
}

func TestSwitchByWriteHeader(t *testing.T) {
	g, o := upgrading(t, &Server{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Upgrade", "echo")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, both, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.Copy(conn, both)
	})
	echoes(t, g, o)
}

func TestDeclinedByText(t *testing.T) {
	_, o := upgrading(t, &Server{}, func(w http.ResponseWriter, r *http.Request) {
		conn, _, _ := w.(http.Hijacker).Hijack()
		_, _ = io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\nX-Why: not\r\n\r\nno")
		conn.Close()
	})
	f := o.next(typeResponse)
	equal(t, "answer", []any{f.status, f.get("x-why"), f.body, f.flags}, "[403 not no 1]")
	o.ends()
}

func TestHijackIsForOffersOnly(t *testing.T) {
	g := start(t, handle(func(w http.ResponseWriter, r *http.Request) {
		if _, _, err := w.(http.Hijacker).Hijack(); err == nil {
			t.Error("Hijack on a shared connection")
		}
		w.WriteHeader(426)
	}))
	g.shared.request(1, "GET", "/")
	equal(t, "status", g.shared.next(typeResponse).status, 426)
}

func TestSwitchToWhatIsNotOffered(t *testing.T) { // P-40
	_, o := upgrading(t, &Server{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Upgrade", "third")
		w.WriteHeader(http.StatusSwitchingProtocols)
	})
	equal(t, "code", o.next(typeReset).payload[0], codeInternal)
	o.ends()
}

func TestMaxUpgraded(t *testing.T) { // P-42
	g, o := upgrading(t, &Server{MaxUpgraded: 1}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Upgrade", "echo")
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\n")
			_, _ = io.Copy(conn, conn)
			conn.Close()
		}
	})
	o.next(typeResponse)
	second := g.own()
	second.send(typeRequest, flagEnd|flagUpgrade, 9, ask("GET", "/", "", offer))
	equal(t, "code", second.next(typeReset).payload[0], codeOverloaded)
}
