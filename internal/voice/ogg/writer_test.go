package ogg

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestWriteAndRead(t *testing.T) {
	var file bytes.Buffer
	w, err := NewWriter(&file, WriterOptions{Channels: 1, InputRate: 16000, PreSkip: 312, Serial: 7,
		Vendor: "test", Tags: []Tag{{"TITLE", "是"}, {"DATE", "2026"}}})
	if err != nil {
		t.Fatal(err)
	}
	var want [][]byte
	packets := board(t)
	for i, p := range packets {
		if i == 10 {
			if err := w.Skip(250 * time.Millisecond); err != nil { // four packets and a remainder
				t.Fatal(err)
			}
			want = append(want, []byte{0x58}, []byte{0x58}, []byte{0x58}, []byte{0x58})
		}
		if err := w.Write(p); err != nil {
			t.Fatal(err)
		}
		want = append(want, p)
	}
	if err := w.Write(nil); err == nil {
		t.Error("nothing was taken for a packet")
	}
	if w.Length() != time.Duration(len(want))*60*time.Millisecond {
		t.Errorf("%d packets last %s", len(want), w.Length())
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Write(packets[0]) == nil || w.Close() == nil {
		t.Error("more was written after the end")
	}
	got, heads, err := all(bytes.NewReader(file.Bytes()))
	if !errors.Is(err, io.EOF) || len(got) != len(want) || heads[0] != (Header{Channels: 1, PreSkip: 312,
		InputRate: 16000}) {
		t.Fatalf("%d of %d packets, %+v, %v", len(got), len(want), heads, err)
	}
	for i, p := range got {
		if !bytes.Equal(p.Data, want[i]) {
			t.Errorf("packet %d changed", i)
		}
		if p.End >= 0 && p.End != int64(i+1)*2880 {
			t.Errorf("packet %d ends at %d", i, p.End)
		}
	}
	if last := got[len(got)-1]; !last.Last || last.End < 0 {
		t.Errorf("%+v", last)
	}
}

// TestKilled checks the file after every packet: it is readable and lacks at most one second.
func TestKilled(t *testing.T) {
	var file bytes.Buffer
	w, err := NewWriter(&file, WriterOptions{Channels: 1, PageInterval: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := w.Write([]byte{0x58, byte(i)}); err != nil {
			t.Fatal(err)
		}
		got, _, err := all(bytes.NewReader(file.Bytes()))
		if !errors.Is(err, io.EOF) || len(got) < i+1-4 {
			t.Fatalf("after %d packets there are %d, %v", i+1, len(got), err)
		}
	}
}

func TestWriteBigPackets(t *testing.T) {
	var file bytes.Buffer
	w, err := NewWriter(&file, WriterOptions{Channels: 2, PageInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var want [][]byte
	for i := range 100 {
		p := append([]byte{0x58}, bytes.Repeat([]byte{byte(i)}, 10*i+254)...)
		if err := w.Write(p); err != nil {
			t.Fatal(err)
		}
		want = append(want, p)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, _, err := all(&file)
	if !errors.Is(err, io.EOF) || len(got) != len(want) {
		t.Fatalf("%d packets, %v", len(got), err)
	}
	for i := range got {
		if !bytes.Equal(got[i].Data, want[i]) {
			t.Errorf("packet %d changed", i)
		}
	}
}

func TestWriterFails(t *testing.T) {
	broken := errors.New("disk full")
	if _, err := NewWriter(writerFunc(func([]byte) (int, error) { return 0, broken }),
		WriterOptions{Channels: 1}); !errors.Is(err, broken) {
		t.Error(err)
	}
	n := 0
	w, err := NewWriter(writerFunc(func(b []byte) (int, error) {
		if n++; n > 2 {
			return 0, broken
		}
		return len(b), nil
	}), WriterOptions{Channels: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write([]byte{0x58}); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(w.Flush(), broken) || !errors.Is(w.Write([]byte{0x58}), broken) || !errors.Is(w.Close(), broken) ||
		n != 3 {
		t.Errorf("%d writes", n)
	}
	for _, r := range []WriterOptions{{}, {Channels: 3}, {Channels: 1, PreSkip: 70000},
		{Channels: 1, Tags: []Tag{{"A", strings.Repeat("x", 70000)}}}} {
		if _, err := NewWriter(io.Discard, r); err == nil {
			t.Errorf("%d channels, pre-skip %d, %d tags: accepted", r.Channels, r.PreSkip, len(r.Tags))
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestOthersReadIt checks and decodes a recording with opus-tools, closed and not closed.
func TestOthersReadIt(t *testing.T) {
	for _, tool := range []string{"opusinfo", "opusdec"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing(t)
		}
	}
	packets := board(t)
	for _, closed := range []bool{true, false} {
		name := filepath.Join(t.TempDir(), "yes.opus")
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		w, err := NewWriter(f, WriterOptions{Channels: 1, InputRate: 16000, PreSkip: 312,
			Vendor: "test", Tags: []Tag{{"TITLE", "yes"}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range packets {
			if err := w.Write(p); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Skip(600 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if closed {
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := exec.CommandContext(t.Context(), "opusinfo", name).CombinedOutput()
		if err != nil && closed { // opusinfo warns about files without an end
			t.Errorf("opusinfo: %v", err)
		}
		warned := regexp.MustCompile(`(?i)warning|error|hole|invalid`).Find(info)
		if (closed && warned != nil) || !bytes.Contains(info, []byte("TITLE=yes")) {
			t.Errorf("opusinfo, closed %t: %s", closed, info)
		}
		wav := name + ".wav"
		if out, err := exec.CommandContext(t.Context(), "opusdec", "--rate", "16000", name,
			wav).CombinedOutput(); err != nil {
			t.Errorf("opusdec: %v: %s", err, out)
		}
		b, err := os.ReadFile(wav)
		if err != nil {
			t.Fatal(err)
		}
		want := (len(packets)+10)*960 - 104
		if got := (len(b) - 44) / 2; got < want-1 || got > want+1 {
			t.Errorf("closed %t: opusdec made %d samples, not %d", closed, got, want)
		}
	}
}

// missing skips a test without opus-tools, which CI installs.
func missing(t *testing.T) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("opus-tools is not installed")
	}
	t.Skip("opus-tools is not installed (Debian: apt-get install opus-tools)")
}
