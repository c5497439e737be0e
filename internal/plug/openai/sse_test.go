package openai

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// readEvents returns all events of a stream. Errors have a "!" in front.
func readEvents(r io.Reader) ([]string, error) {
	e := newEvents(bufio.NewReaderSize(r, 64))
	var out []string
	for {
		data, isError, err := e.read()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		text := string(data)
		if isError {
			text = "!" + text
		}
		out = append(out, text)
	}
}

func TestEvents(t *testing.T) {
	long := `{"x":"` + strings.Repeat("y", 500) + `"}`
	tests := []struct {
		name, stream string
		want         []string
	}{
		{"nothing", "", nil},
		{"plain", "data: {\"a\":1}\n\ndata: [DONE]\n\n", []string{`{"a":1}`, "[DONE]"}},
		{"no space", "data:{\"a\":1}\n\n", []string{`{"a":1}`}},
		{"one space only", "data:  x\n\n", []string{" x"}},
		{"CRLF", "data: {\"a\":1}\r\n\r\ndata: 2\r\n\r\n", []string{`{"a":1}`, "2"}},
		{"BOM", "\ufeffdata: 1\n\n", []string{"1"}},
		{"BOM later", "data: 1\n\n\ufeffdata: 2\n\n", []string{"1"}},
		{"comments", ": ping\n\n:\ndata: 1\n: in the middle\n\n:last", []string{"1"}},
		{"other fields", "id: 7\nretry: 10\nevent: message\ndata: 1\nunknown\n\n", []string{"1"}},
		{"empty data", "data:\n\ndata: \n\ndata\n\ndata: 1\n\n", []string{"1"}},
		{"several lines", "data: {\ndata: \"a\":1\ndata: }\n\n", []string{"{\n\"a\":1\n}"}},
		{"no empty line at the end", "data: 1\n\ndata: 2\n", []string{"1", "2"}},
		{"no line break at the end", "data: 1\n\ndata: 2", []string{"1", "2"}},
		{"no empty lines", "data: {\"a\":1}\ndata: {\"b\":2}\ndata: [DONE]\n",
			[]string{`{"a":1}`, `{"b":2}`, "[DONE]"}},
		{"many empty lines", "\n\n\ndata: 1\n\n\n\n", []string{"1"}},
		{"error event", "event: error\ndata: {\"message\":\"x\"}\n\ndata: 1\n\n", []string{`!{"message":"x"}`, "1"}},
		{"error field", "error: {\"message\":\"x\"}\n\ndata: [DONE]\n\n", []string{`!{"message":"x"}`, "[DONE]"}},
		{"error field without an empty line before", "data: 1\nerror: 2\ndata: 3\n\n", []string{"1", "!2", "3"}},
		{"longer than the buffer", "data: " + long + "\n\ndata: 1\n\n", []string{long, "1"}},
		{"longer, cut off", "data: " + long, []string{long}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for how, r := range map[string]io.Reader{
				"at once":        strings.NewReader(tt.stream),
				"byte by byte":   iotest.OneByteReader(strings.NewReader(tt.stream)),
				"data and error": iotest.DataErrReader(strings.NewReader(tt.stream)),
			} {
				got, err := readEvents(r)
				if err != nil || strings.Join(got, "¦") != strings.Join(tt.want, "¦") || len(got) != len(tt.want) {
					t.Errorf("%s: got %q, %v; want %q", how, got, err, tt.want)
				}
			}
		})
	}
}

func TestEventsThatAreTooLong(t *testing.T) {
	half := "data: " + strings.Repeat("x", maxEvent/2) + "\n"
	for name, stream := range map[string]string{
		"in one line":       "data: " + strings.Repeat("x", maxEvent+100) + "\n\n",
		"in a comment":      ": " + strings.Repeat("x", maxEvent+100) + "\n\n",
		"in several lines":  half + half + half,
		"without a line":    strings.Repeat("x", maxEvent+100),
		"after a good line": "data: 1\n\n" + half + half + half,
	} {
		if _, err := readEvents(strings.NewReader(stream)); err != errEventTooLong {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if got, err := readEvents(strings.NewReader("data: " + strings.Repeat("x", maxEvent) + "\r\n\r\n")); err != nil ||
		len(got) != 1 {
		t.Errorf("the longest: %d events, %v", len(got), err)
	}
}

func TestEventsOfManyLinesAreReadInTime(t *testing.T) {
	// The prefix is valid up to its end, so each validation would take as long as the prefix.
	stream := "data: [" + strings.Repeat("0,", maxEvent/4) + "\n" + strings.Repeat("data: 0,\n", maxEvent/8)
	begun := time.Now()
	if got, err := readEvents(strings.NewReader(stream)); err != nil || len(got) != 1 {
		t.Errorf("%d events, %v", len(got), err)
	}
	if took := time.Since(begun); took > patience {
		t.Errorf("it took %v", took)
	}
}

func TestEventsPassErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	got, err := readEvents(io.MultiReader(strings.NewReader("data: 1\n\ndata: 2\n"), iotest.ErrReader(broken)))
	if err != broken || len(got) != 1 {
		t.Errorf("got %q, %v", got, err)
	}
}

// FuzzEvents reads arbitrary bytes, as a whole and one by one. The events must be the same, and
// none may exceed the limit.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		"data: {\"a\":1}\n\ndata: [DONE]\n\n", "data:{}\r\n\r\n", ": c\n\nevent: error\ndata: x\n\n", "error: {}\n\n",
		"data: {\ndata: }\n\ndata", "\ufeffdata: 1\ndata: 2\n", "data: \xff\n\n", "data\n:\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		all, err := readEvents(bytes.NewReader(stream))
		slow, slowErr := readEvents(iotest.OneByteReader(bytes.NewReader(stream)))
		if err != slowErr || strings.Join(all, "\x00") != strings.Join(slow, "\x00") {
			t.Fatalf("at once %q, %v; byte by byte %q, %v", all, err, slow, slowErr)
		}
		for _, e := range all {
			if len(e) > maxEvent+1+bytes.Count(stream, []byte("\n")) || strings.TrimSpace(e) == "" {
				t.Fatalf("an event of %d bytes: %.40q", len(e), e)
			}
		}
	})
}
