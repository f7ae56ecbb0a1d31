// The REST benchmark service: net/http + rueidis (auto-pipelining) + mattn/go-sqlite3.
// env: PORT, SQLITE_DB, REDIS_PORT, REDIS_CLUSTER (1: a cluster), WRITE_CONNS (1 = writes queue in Go; >1 = they meet SQLite's busy handler)
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"runtime"
	"strconv"

	_ "github.com/mattn/go-sqlite3"
	"github.com/redis/rueidis"
)

type user struct {
	ID        int64   `json:"id"`
	Name      string  `json:"name"`
	Email     string  `json:"email"`
	Bio       *string `json:"bio"`
	CreatedAt string  `json:"createdAt"`
}
type input struct {
	Name  string  `json:"name"`
	Email string  `json:"email"`
	Bio   *string `json:"bio"`
}

const cols = "id,name,email,bio,CAST(created_at AS TEXT)"

func env(k, d string) string {
	if v := os.Getenv(k); v != "" {
		return v
	}
	return d
}
func must[T any](v T, e error) T {
	if e != nil {
		panic(e)
	}
	return v
}
func scan(r interface{ Scan(...any) error }) (u user, e error) {
	e = r.Scan(&u.ID, &u.Name, &u.Email, &u.Bio, &u.CreatedAt)
	return
}
func send(w http.ResponseWriter, code int, b []byte) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.WriteHeader(code)
	w.Write(b)
}
func sendJSON(w http.ResponseWriter, code int, v any) { send(w, code, must(json.Marshal(v))) }

var nf = []byte(`{"error":"User not found"}`)

func main() {
	dsn := "file:" + env("SQLITE_DB", "/tmp/bench.db") + "?_busy_timeout=5000&_journal_mode=WAL&_synchronous=FULL&_txlock=immediate"
	rd, wr := must(sql.Open("sqlite3", dsn)), must(sql.Open("sqlite3", dsn))
	rd.SetMaxOpenConns(2 * runtime.NumCPU())
	rd.SetMaxIdleConns(2 * runtime.NumCPU())
	wc, _ := strconv.Atoi(env("WRITE_CONNS", "1"))
	wr.SetMaxOpenConns(wc)
	wr.SetMaxIdleConns(wc)
	one := must(rd.Prepare("SELECT " + cols + " FROM users WHERE id=?"))
	list := must(rd.Prepare("SELECT " + cols + " FROM users ORDER BY id LIMIT ? OFFSET ?"))
	ins := must(wr.Prepare("INSERT INTO users(name,email,bio) VALUES (?,?,?) RETURNING " + cols))
	upd := must(wr.Prepare("UPDATE users SET name=?,email=?,bio=? WHERE id=? RETURNING " + cols))
	del := must(wr.Prepare("DELETE FROM users WHERE id=?"))
	rc := must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:" + env("REDIS_PORT", "6379")}, DisableCache: true, ForceSingleClient: env("REDIS_CLUSTER", "0") == "0"}))
	bg := context.Background()
	drop := func(id string) { rc.Do(bg, rc.B().Del().Key("user:"+id).Build()) }

	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		n, e := strconv.ParseInt(id, 10, 64)
		if e != nil {
			send(w, 404, nf)
			return
		}
		key := "user:" + id
		if b, e := rc.Do(bg, rc.B().Get().Key(key).Build()).AsBytes(); e == nil {
			send(w, 200, b)
			return
		}
		u, e := scan(one.QueryRow(n))
		if errors.Is(e, sql.ErrNoRows) {
			send(w, 404, nf)
			return
		} else if e != nil {
			http.Error(w, e.Error(), 500)
			return
		}
		b := must(json.Marshal(u))
		rc.Do(bg, rc.B().Psetex().Key(key).Milliseconds(60000).Value(rueidis.BinaryString(b)).Build())
		send(w, 200, b)
	})
	mux.HandleFunc("GET /users", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		page, limit := 1, 20
		if v, e := strconv.Atoi(q.Get("page")); e == nil {
			page = v
		}
		if v, e := strconv.Atoi(q.Get("limit")); e == nil {
			limit = min(v, 100)
		}
		rows, e := list.Query(limit, (page-1)*limit)
		if e != nil {
			http.Error(w, e.Error(), 500)
			return
		}
		defer rows.Close()
		us := make([]user, 0, limit)
		for rows.Next() {
			us = append(us, must(scan(rows)))
		}
		sendJSON(w, 200, map[string]any{"page": page, "limit": limit, "data": us})
	})
	mux.HandleFunc("POST /users", func(w http.ResponseWriter, r *http.Request) {
		var i input
		if e := json.NewDecoder(r.Body).Decode(&i); e != nil {
			http.Error(w, e.Error(), 400)
			return
		}
		u, e := scan(ins.QueryRow(i.Name, i.Email, i.Bio))
		if e != nil {
			http.Error(w, e.Error(), 500)
			return
		}
		id := strconv.FormatInt(u.ID, 10)
		drop(id)
		w.Header().Set("Location", "/users/"+id)
		sendJSON(w, 201, u)
	})
	mux.HandleFunc("PUT /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		var i input
		if e := json.NewDecoder(r.Body).Decode(&i); e != nil {
			http.Error(w, e.Error(), 400)
			return
		}
		u, e := scan(upd.QueryRow(i.Name, i.Email, i.Bio, id))
		if errors.Is(e, sql.ErrNoRows) {
			send(w, 404, nf)
			return
		} else if e != nil {
			http.Error(w, e.Error(), 500)
			return
		}
		drop(id)
		sendJSON(w, 200, u)
	})
	mux.HandleFunc("DELETE /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		res, e := del.Exec(id)
		if e != nil {
			http.Error(w, e.Error(), 500)
			return
		}
		if n, _ := res.RowsAffected(); n == 0 {
			send(w, 404, nf)
			return
		}
		drop(id)
		send(w, 200, []byte(`{"message":"User deleted"}`))
	})
	panic(http.ListenAndServe("127.0.0.1:"+env("PORT", "8310"), mux))
}
