package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the "pgx" driver

	"patchbay/internal/account"
	"patchbay/internal/app"
	"patchbay/internal/config"
)

// server is a running server with a large amount of data, and its owner's cookie.
type server struct {
	url, cookie string
	client      *http.Client
	stop        func()
}

// start runs a server in this process and fills it.
func start(ctx context.Context, database string, a amount) (*server, error) {
	folder, err := os.MkdirTemp("", "patchbay-bench-")
	if err != nil {
		return nil, err
	}
	c, _, err := config.Load(config.Sources{Env: []string{"HOME=" + folder}, Flags: map[string]string{
		"data": folder, "listen": "127.0.0.1:0", "database.url": database, "log.level": "error",
		"xiaozhi.mqtt": "127.0.0.1:0", "xiaozhi.audio": "127.0.0.1:0",
	}})
	if err != nil {
		return nil, err
	}
	s := &server{client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: together}}}
	running, cancel := context.WithCancel(ctx)
	ready, done := make(chan *app.Base, 1), make(chan error, 1)
	go func() {
		done <- app.Serve(running, c, app.Options{Version: "bench", Logs: os.Stderr,
			Ready: func(url string, b *app.Base) { s.url = url; ready <- b }})
	}()
	s.stop = func() {
		s.client.CloseIdleConnections()
		cancel()
		<-done
		os.RemoveAll(folder)
	}
	select {
	case b := <-ready:
		f := filler{Base: b, amount: a, url: s.url, now: time.Now()}
		if err = f.fill(ctx); err == nil {
			err = analyze(ctx, database)
		}
		if err == nil {
			s.cookie, err = b.Accounts.Admit(ctx, f.person, account.Browser{Agent: "bench"})
		}
		if err != nil {
			s.stop()
			return nil, err
		}
		return s, nil
	case err := <-done:
		cancel()
		os.RemoveAll(folder)
		return nil, err
	}
}

// analyze collects PostgreSQL's statistics, as its autovacuum does a minute after such a change.
func analyze(ctx context.Context, database string) error {
	if database == "" {
		return nil
	}
	db, err := sql.Open("pgx", database)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, "ANALYZE")
	return err
}

// get requests a page.
func (s *server) get(ctx context.Context, page string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+page, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Cookie", "patchbay="+s.cookie+"; patchbay-lang=en")
	resp, err := s.client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", page, resp.Status)
	}
	return string(text), err
}

var (
	links = regexp.MustCompile(`<a [^>]*href="(/[^"]*)"[^>]*>`)
	// one matches a number or an id in a path: the page of one item stands for all of its kind.
	one = regexp.MustCompile(`/([0-9]+|[0-9a-f]{8,}|[0-9a-z]{20,}|[0-9a-f-]{36}|[a-z0-9-]+_[a-zA-Z0-9_.-]+)(/|$)`)
)

// pages returns the pages that links lead to, one of each kind.
func (s *server) pages(ctx context.Context) []string {
	list, known := []string{"/"}, map[string]bool{"/": true}
	for i := 0; i < len(list); i++ {
		text, err := s.get(ctx, list[i])
		if err != nil { // a dead link
			fmt.Fprintln(os.Stderr, err)
			list = slices.Delete(list, i, i+1)
			i--
			continue
		}
		for _, link := range links.FindAllStringSubmatch(text, -1) {
			page := strings.ReplaceAll(link[1], "&amp;", "&")
			page, _, _ = strings.Cut(page, "#")
			path, query, _ := strings.Cut(page, "?")
			name, _, _ := strings.Cut(query, "=")
			kind := one.ReplaceAllString(one.ReplaceAllString(path, "/#$2"), "/#$2") + "?" + name
			if strings.HasPrefix(path, "/learn/tags/") {
				kind = "/learn/tags/#"
			}
			if known[kind] || page == "" || strings.Contains(link[0], " download") ||
				strings.HasPrefix(path, "/api/") || strings.Contains(path, "export") ||
				strings.Contains(path, "/listening") {
				continue
			}
			known[kind] = true
			list = append(list, page)
		}
	}
	return list
}
