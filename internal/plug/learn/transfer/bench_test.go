package transfer

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/internal/store"
)

// many makes 100,000 items with five reviews each, one at a time.
func many(each func(Item) error) error {
	const answer = "The answer, with **some** words and a list:\n\n- one\n- two\n- 三\n\nand a last paragraph of ordinary length."
	for i := range 100_000 {
		id := fmt.Sprintf("7b0a3f6e-6a3c-4f57-9a55-%012d", i)
		at := now.Add(-time.Duration(i) * time.Minute)
		it := Item{ID: id, Origin: "learn:" + id, Deck: fmt.Sprintf("Deck %d::Part %d", i%7, i%31),
			Question: fmt.Sprintf("Question number %d, which is 问题 %d?", i, i), Answer: answer,
			Tags: []string{"a", "b c"}, Created: at, Updated: at, InPlan: true,
			Card: &store.Card{Phase: store.Review, Stability: 12, Difficulty: 5,
				Due: store.DateOf(now) + store.Day(i%100), Reps: 5, LastAt: now, LastDay: store.DateOf(now)}}
		for n := range 5 {
			it.History = append(it.History, store.LogEntry{ID: id + strconv.Itoa(n), Kind: store.LogReview,
				At: at.Add(time.Duration(n) * 30 * time.Hour), Grade: store.Good, Score: -1, Took: 3 * time.Second,
				Elapsed: n})
		}
		if err := each(it); err != nil {
			return err
		}
	}
	return nil
}

// peak returns the peak memory of the process since the last reset, in MiB, on systems that report
// it.
func peak() float64 {
	b, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseFloat(fields[0], 64)
	return kib / 1024
}

func resetPeak() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// BenchmarkManyItems writes and reads files of 100,000 items; -benchtime 1x is
// enough.
func BenchmarkManyItems(b *testing.B) {
	for _, format := range []string{JSON, CSV, Markdown, Anki} {
		path := filepath.Join(b.TempDir(), "items."+format)
		b.Run("write/"+format, func(b *testing.B) {
			resetPeak()
			before := peak()
			for b.Loop() {
				writeMany(b, format, path)
			}
			b.ReportMetric(peak()-before, "MiB-peak")
		})
		b.Run("read/"+format, func(b *testing.B) {
			f, err := os.Open(path)
			if err != nil {
				b.Skip("not written")
			}
			defer f.Close()
			info, _ := f.Stat()
			resetPeak()
			before := peak()
			for b.Loop() {
				n := 0
				bad, err := Read(b.Context(), format, f, info.Size(), ReadOptions{},
					func(Item) error { n++; return nil })
				if err != nil || len(bad) > 0 || n != 100_000 {
					b.Fatal(n, bad, err)
				}
			}
			b.ReportMetric(peak()-before, "MiB-peak")
			b.ReportMetric(float64(info.Size())/(1<<20), "MiB-file")
		})
	}
	b.Run("read/rows", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "rows.json")
		size := writeRows(b, path)
		f, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		resetPeak()
		before := peak()
		for b.Loop() {
			n := 0
			if bad, err := Read(b.Context(), Rows, f, size, ReadOptions{},
				func(Item) error { n++; return nil }); err != nil || len(bad) > 0 || n != 100_000 {
				b.Fatal(n, bad, err)
			}
		}
		b.ReportMetric(peak()-before, "MiB-peak")
		b.ReportMetric(float64(size)/(1<<20), "MiB-file")
	})
}

func writeMany(b *testing.B, format, path string) {
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	w, err := NewWriter(format, f, WriteOptions{Now: now})
	if err != nil {
		b.Fatal(err)
	}
	if err := many(w.Write); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

// writeRows writes two tables of 100,000 and 400,000 rows.
func writeRows(b *testing.B, path string) int64 {
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	put := func(s string) { _, _ = io.WriteString(f, s) }
	put(`{"knowledge_points":[`)
	for i := range 100_000 {
		put(fmt.Sprintf(`%.*s{"id":"7b0a3f6e-6a3c-4f57-9a55-%012d","user_id":"u","question":"q %d","answer":"an answer of some words","created_at":"2026-11-01T23:30:00.5+00:00","updated_at":"2026-11-01T23:30:00.5+00:00","embedding":null,"is_in_review_plan":true}`, min(i, 1), ",", i, i))
	}
	put(`],"review_schedules":[`)
	for i := range 400_000 {
		put(fmt.Sprintf(`%.*s{"id":"7b0a3f6e-6a3c-4f57-9a56-%012d","knowledge_point_id":"7b0a3f6e-6a3c-4f57-9a55-%012d","user_id":"u","review_date":"2026-11-08","review_number":%d,"completed":true,"completed_at":"2026-11-0%dT08:00:00+00:00","created_at":"2026-11-01T23:30:00+00:00","recall_text":"what came to mind"}`, min(i, 1), ",", i, i/4, i%4+1, i%4+1))
	}
	put("]}")
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}
