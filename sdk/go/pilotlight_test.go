package pilotlight

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestWithoutTheGateway(t *testing.T) {
	t.Setenv("PILOTLIGHT_SOCKET", "")
	err := Serve(nil)
	if !errors.Is(err, ErrNoGateway) || !strings.Contains(err.Error(), "pilotlight.toml") {
		t.Fatalf("%v", err)
	}
}

func TestHelloSaysTheLimits(t *testing.T) {
	g := start(t, &Server{Exchanges: 7, MaxOwn: 5000})
	for _, line := range []string{"PIPE/1\n", "\nexchanges=7\n", "\nmax_own=4096\n", "\nminor=1\n", "\nsdk=go/"} {
		if !strings.Contains(g.shared.hello, line) {
			t.Fatalf("no %q in %q", line, g.shared.hello)
		}
	}
}

func TestAnswersOfOneReadAreOneWrite(t *testing.T) { // P-18
	g := start(t, handle(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) }))
	var batch []byte
	for id := uint16(1); id <= 50; id++ {
		batch = append(batch, encode(typeRequest, flagEnd, id, ask("GET", fmt.Sprintf("/%d", id), ""))...)
	}
	g.shared.reads = 0
	g.shared.write(batch)
	for i := 0; i < 50; i++ {
		f := g.shared.next(typeResponse)
		equal(t, "body", f.body, fmt.Sprintf("/%d", f.id))
	}
	if g.shared.reads > 25 { // a machine with much other work parts them
		t.Fatalf("%d writes for 50 answers", g.shared.reads)
	}
}

func TestBlockedHandlersDoNotKeepOthersWaiting(t *testing.T) {
	release := make(chan struct{})
	g := start(t, handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/blocked" {
			<-release
		}
	}))
	for id := uint16(1); id <= 63; id++ {
		g.shared.request(id, "GET", "/blocked")
	}
	g.shared.request(64, "GET", "/quick")
	equal(t, "first answer", g.shared.next(typeResponse).id, 64)
	close(release)
	for i := 0; i < 63; i++ {
		g.shared.next(typeResponse)
	}
}

func TestRequestIsThatOfNetHTTP(t *testing.T) {
	var seen *http.Request
	var body []byte
	g := start(t, handle(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		body, _ = io.ReadAll(r.Body)
	}))
	payload := ask("POST", "/a%2Fb/c?x=1&y=%20", "hello", "content-type: text/x", "x-two: 1", "x-two: 2")
	payload = payload[:4] + "\x30\x75\x00\x00" + payload[8:] // deadline_ms=30000
	g.shared.send(typeRequest, flagEnd, 5, payload)
	g.shared.next(typeResponse)
	equal(t, "method", seen.Method, "POST")
	equal(t, "path", seen.URL.Path, "/a/b/c")
	equal(t, "raw path", seen.URL.EscapedPath(), "/a%2Fb/c")
	equal(t, "query", seen.URL.Query(), url.Values{"x": {"1"}, "y": {" "}})
	equal(t, "host", seen.Host, "test.local")
	equal(t, "remote address", seen.RemoteAddr, "127.0.0.1:5000")
	equal(t, "protocol", []int{seen.ProtoMajor, seen.ProtoMinor}, "[1 1]")
	equal(t, "length", seen.ContentLength, 5)
	equal(t, "values", seen.Header["X-Two"], "[1 2]")
	equal(t, "body", string(body), "hello")
	equal(t, "request id", RequestID(seen.Context()), "req-1")
	if at, ok := seen.Context().Deadline(); !ok || time.Until(at) > 30*time.Second {
		t.Fatalf("deadline %v %v", at, ok)
	}
	select {
	case <-seen.Context().Done():
	case <-time.After(within):
		t.Fatal("the context is still alive behind the handler")
	}
}

func TestTargetsAreParsedAsNetHTTPDoes(t *testing.T) {
	for _, target := range []string{"/", "/a", "/a/b?c=d", "/a?", "/a??", "//x/y", "/a%2Fb", "/ä", "/a b", "/a#b", "*", "/?a b",
		"http://other/x?y", "/a?b#c", "/%zz", "", "/a:b@c;d=e,f$g&h+i~j", "/a?b\x7f", "/[x]", "/!'()*"} {
		wanted, wantedErr := url.ParseRequestURI(target)
		actual, err := parseTarget(target)
		if (err == nil) != (wantedErr == nil) {
			t.Fatalf("%q: %v, net/url says %v", target, err, wantedErr)
		}
		if err == nil && *actual != *wanted {
			t.Fatalf("%q: %#v, net/url says %#v", target, actual, wanted)
		}
	}
}

func TestAnswerIsThatOfNetHTTP(t *testing.T) {
	g := start(t, handle(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Bad", "a\r\nb\x00c")
		w.Header()["no name"] = []string{"x"}
		w.Header().Set("Connection", "x-hop")
		w.Header().Set("X-Hop", "1")
		switch r.URL.Path {
		case "/none":
			w.WriteHeader(204)
			if _, err := w.Write([]byte("x")); err != http.ErrBodyNotAllowed {
				t.Errorf("Write: %v", err)
			}
		case "/long":
			w.Header().Set("Content-Length", "1")
			if _, err := w.Write([]byte("xy")); err != http.ErrContentLength {
				t.Errorf("Write: %v", err)
			}
			_, _ = w.Write([]byte("x"))
		default:
			_, _ = io.WriteString(w, "<!DOCTYPE html>")
			w.Header().Set("X-Late", "1")
		}
	}))
	g.shared.request(1, "GET", "/")
	f := g.shared.next(typeResponse)
	equal(t, "guessed type", f.get("content-type"), "text/html; charset=utf-8")
	equal(t, "value", f.get("x-bad"), "a  b c")
	equal(t, "fields", len(f.fields), 5) // two of them, and what is behind the last zero byte
	g.shared.request(2, "HEAD", "/")
	f = g.shared.next(typeResponse)
	equal(t, "HEAD", []string{f.body, f.get("content-length"), f.get("content-type")}, "[ 15 text/html; charset=utf-8]")
	g.shared.request(3, "GET", "/none")
	equal(t, "204", g.shared.next(typeResponse).status, 204)
	g.shared.request(4, "GET", "/long")
	equal(t, "long", g.shared.next(typeResponse).body, "x")
	g.shared.request(5, "GET", "nonsense")
	equal(t, "bad target", g.shared.next(typeResponse).status, 400)
}

func TestFailures(t *testing.T) {
	var said bytes.Buffer
	server := handle(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/goexit":
			runtime.Goexit()
		case "/short":
			w.Header().Set("Content-Length", "9")
			_, _ = w.Write([]byte("x"))
		case "/huge":
			w.Header().Set("X", strings.Repeat("x", minMaxFrame))
		default:
			panic("no reason")
		}
	})
	server.ErrorLog = log.New(&said, "", 0)
	g := start(t, server)
	for id, path := range []string{"/abort", "/goexit", "/short", "/huge", "/panic"} {
		g.shared.request(uint16(id+1), "GET", path)
		equal(t, "code", g.shared.next(typeReset).payload[0], codeInternal)
	}
	if log := said.String(); !strings.Contains(log, "no reason") || strings.Contains(log, "/abort") {
		t.Fatal(log)
	}
}

type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestRefusals(t *testing.T) {
	late := make(chan error, 1)
	g := start(t, handle(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/refuse":
			_ = Refuse(wrapped{w})
		case "/overloaded":
			_ = Overloaded(w, 1500*time.Millisecond)
		case "/large":
			_ = TooLarge(w)
		default:
			w.(http.Flusher).Flush()
			late <- Refuse(w)
		}
		_, _ = io.WriteString(w, "thrown away")
	}))
	for id, code := range []int{codeRefused, codeOverloaded, codeTooLarge} {
		g.shared.request(uint16(id+1), "GET", []string{"/refuse", "/overloaded", "/large"}[id])
		payload := g.shared.next(typeReset).payload
		equal(t, "code", payload[0], code)
		if code == codeOverloaded {
			equal(t, "retry", binary.LittleEndian.Uint32(payload[4:]), 1500)
		}
	}
	g.shared.request(9, "GET", "/late")
	g.accept("answer").next(typeResponse)
	if err := <-late; err == nil {
		t.Fatal("Refuse behind Flush is no error")
	}
}

func TestStreamsLeaveTheSharedConnection(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	g := start(t, handle(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(103)
		both.Done()
		both.Wait()
		w.Header().Set("Trailer", "X-Sum")
		_, _ = w.Write(bytes.Repeat([]byte("x"), 100_000))
		w.Header().Set("X-Sum", "7")
		w.Header().Set(http.TrailerPrefix+"X-More", "8")
	}))
	for id := uint16(1); id <= 2; id++ {
		g.shared.request(id, "GET", "/")
	}
	a, b := g.accept("answer"), g.accept("answer")
	for _, p := range []*peer{a, b} {
		equal(t, "early hints", p.next(typeInfo).get("link"), "</style.css>")
		size := len(p.next(typeResponse).body)
		for size < 100_000 {
			size += len(p.next(typeData).payload)
		}
		equal(t, "trailers", string(p.next(typeTrailers).payload), "x-sum\x007\x00x-more\x008\x00")
	}
}

func TestBothDirectionsAtOnce(t *testing.T) {
	g := start(t, handle(func(w http.ResponseWriter, r *http.Request) {
		buffer := make([]byte, 100)
		for {
			n, err := r.Body.Read(buffer)
			if n > 0 {
				_, _ = w.Write(bytes.ToUpper(buffer[:n]))
				w.(http.Flusher).Flush()
			}
			if err != nil {
				fmt.Fprintf(w, "%v %v", err, r.Trailer)
				return
			}
		}
	}))
	o := g.own()
	o.send(typeRequest, 0, 1, ask("POST", "/", "one", "trailer: x-sum"))
	equal(t, "first", o.next(typeResponse).body, "ONE")
	o.send(typeData, 0, 1, "two")
	equal(t, "second", string(o.next(typeData).payload), "TWO")
	o.send(typeTrailers, 0, 1, "x-sum\x007\x00")
	equal(t, "end", string(o.next(typeData).payload), "EOF map[X-Sum:[7]]")
}

func TestAnswerBeforeTheBodyHasEnded(t *testing.T) { // P-21
	g := start(t, handle(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(413) }))
	o := g.own()
	o.send(typeRequest, 0, 1, ask("POST", "/", strings.Repeat("x", 60_000)))
	o.next(typeStop)
	equal(t, "status", o.next(typeResponse).status, 413)
	o.send(typeData, 0, 1, strings.Repeat("x", 60_000))
	o.send(typeData, flagEnd, 1, "")
	o.request(2, "GET", "/")
	equal(t, "status", o.next(typeResponse).status, 413)
}

func TestCancelAndDeadline(t *testing.T) {
	errs := make(chan error, 1)
	g := start(t, handle(func(w http.ResponseWriter, r *http.Request) {
		derived, cancel := context.WithCancel(r.Context())
		defer cancel()
		<-derived.Done()
		errs <- r.Context().Err()
	}))
	for code, expected := range map[byte]error{codeCancelled: context.Canceled, codeDeadline: context.DeadlineExceeded} {
		g.shared.request(1, "GET", "/")
		g.shared.send(typeReset, 0, 1, string([]byte{code, 0, 0, 0, 0, 0, 0, 0}))
		equal(t, "error", <-errs, expected)
		equal(t, "final frame", g.shared.next(typeReset).payload[0], code)
	}
	o := g.own()
	o.request(1, "GET", "/")
	o.sock.Close() // P-34
	equal(t, "error", <-errs, context.Canceled)
}

func TestLogLinesBelongToTheirRequest(t *testing.T) { // P-36
	g := start(t, handle(func(w http.ResponseWriter, r *http.Request) {
		log.New(LogWriter(r.Context(), LevelWarn), "", 0).Print("careful")
	}))
	g.shared.request(6, "GET", "/")
	line := g.shared.next(typeLog)
	equal(t, "line", []any{line.id, string(line.payload)}, "[6 \x02careful]")
	g.shared.next(typeResponse)
}

func TestShutdownFinishesWhatIsOpen(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	server := handle(func(w http.ResponseWriter, r *http.Request) { close(entered); <-release })
	hook := make(chan struct{})
	server.RegisterOnShutdown(func() { close(hook) })
	g := start(t, server)
	g.shared.request(1, "GET", "/")
	<-entered
	done := make(chan error, 1)
	go func() { done <- server.Shutdown(context.Background()) }()
	g.shared.next(typeDrain) // P-32
	<-hook
	g.shared.request(2, "GET", "/")
	equal(t, "refusal", g.shared.next(typeReset).payload[0], codeRefused)
	close(release)
	g.shared.next(typeResponse)
	g.shared.send(typeDrain, 0, 0, "\x00\x00\x00\x00")
	g.shared.ends()
	equal(t, "Serve", g.ends(), nil)
	equal(t, "Shutdown", <-done, nil)
}

func TestViolationIsWhatServeReturns(t *testing.T) {
	g := start(t, handle(nil))
	g.shared.send(typeData, 0, 1, "")
	if text := string(g.shared.next(typeReset).payload[8:]); !strings.HasPrefix(text, "P-11") {
		t.Fatal(text)
	}
	if err := g.ends(); err == nil || !strings.Contains(err.Error(), "P-11") {
		t.Fatal(err)
	}
}
