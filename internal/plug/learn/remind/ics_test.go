package remind

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestICS(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	first, _ := store.ParseDay("2026-10-24")
	for name, f := range map[string]Feed{
		"testdata/en.ics": {Person: "ada", Lang: i18n.English,
			At: "20:00", Days: []FeedDay{{first, 12}, {first + 1, 0}, {first + 2, 3}}},
		"testdata/zh.ics": {Person: "ada", Lang: i18n.Chinese, Days: []FeedDay{{first, 1000}}},
	} {
		f.Calendar = schedule.Calendar{Zone: berlin, Start: 4 * time.Hour}
		f.Now = time.Date(2026, 10, 24, 9, 0, 0, 0, time.UTC)
		got := ICS(f)
		if *update {
			if err := os.WriteFile(name, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got\n%s", name, got)
		}
		wellFormed(t, got)
	}
}

// wellFormed checks every line against RFC 5545.
func wellFormed(t *testing.T, text []byte) {
	t.Helper()
	if !bytes.HasSuffix(text, []byte("\r\n")) || bytes.Count(text, []byte("\n")) != bytes.Count(text, []byte("\r\n")) ||
		bytes.Count(text, []byte("\r")) != bytes.Count(text, []byte("\r\n")) {
		t.Error("a line does not end with CRLF")
	}
	for line := range strings.SplitSeq(string(text), "\r\n") {
		if len(line) > 75 || !utf8.ValidString(line) {
			t.Errorf("a line of %d bytes: %q", len(line), line)
		}
	}
}

func TestLines(t *testing.T) {
	var w lines
	w.text("X", `a\b;c,d`+"\r\ne\nf")
	if got := w.String(); got != `X:a\\b\;c\,d\ne\nf`+"\r\n" {
		t.Errorf("escaped: %q", got)
	}
	for _, text := range []string{strings.Repeat("汉", 100), strings.Repeat("x", 75), strings.Repeat("x", 76),
		strings.Repeat("é😀", 60), ""} {
		var w lines
		w.add(text)
		wellFormed(t, []byte(w.String()))
		if got := strings.TrimSuffix(strings.ReplaceAll(w.String(), "\r\n ", ""), "\r\n"); got != text {
			t.Errorf("%q unfolds to %q", text, got)
		}
	}
}

func TestFeedOf(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()}, "2026-11-20 09:00")
	r.add("ada", 3)
	r.wish("ada", glasses("Asia/Shanghai", "21:15"))
	q, err := r.Queue(ctx, "ada", learn.QueueFilter{Limit: 1})
	r.must(err)
	out, err := r.Submit(ctx, "ada", learn.Submission{Point: q.Entries[0].ID, Grade: store.Easy, Score: -1})
	r.must(err)
	f, err := NewFeed(ctx, r.Service, "ada", i18n.English)
	r.must(err)
	if len(f.Days) != 14 || f.Days[0].Day.String() != "2026-11-20" || f.Days[0].Due != 2 ||
		f.Days[out.Entry.Card.Due-f.Days[0].Day].Due != 1 {
		t.Fatalf("%+v; the next review is on %s", f, out.Entry.Card.Due)
	}
	text := string(ICS(f))
	if !strings.Contains(text, "DTSTART:20261120T131500Z") || strings.Count(text, "BEGIN:VEVENT") != 2 ||
		strings.Contains(text, "ada") {
		t.Fatalf("%s", text)
	}
	retryDelay, err := NewFeed(ctx, r.Service, "ada", i18n.English)
	r.must(err)
	if string(ICS(retryDelay)) != text {
		t.Error("the same calendar is written in another way")
	}
}
