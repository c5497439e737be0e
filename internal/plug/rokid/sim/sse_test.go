package sim

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// frames returns the events that a parser reads from a stream in parts of n bytes.
func frames(stream []byte, n int) (list []string, comments int, unfinished bool, err error) {
	var p parser
	for len(stream) > 0 && err == nil {
		n := min(n, len(stream))
		err = p.feed(stream[:n], func(f frame) {
			data := "none"
			if f.data != nil {
				data = fmt.Sprintf("%q", f.data)
			}
			list = append(list, f.name+" "+data)
		})
		stream = stream[n:]
	}
	return list, p.comments, p.isUnfinished(), err
}

func TestParser(t *testing.T) {
	for name, c := range map[string]struct {
		stream     string
		want       []string
		comments   int
		unfinished bool
	}{
		"two": {"event: message\ndata: {}\n\nevent:done\ndata:1\n\n", []string{`message "{}"`, `done "1"`}, 0,
			false},
		"CRLF": {"event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", []string{`a "1"`, `message "2"`}, 0, false},
		"CR":   {"event: a\rdata: 1\r\rdata: 2\r\r", []string{`a "1"`, `message "2"`}, 0, false},
		"mixed": {"data: 1\r\n\ndata: 2\n\r\ndata: 3\n\r",
			[]string{`message "1"`, `message "2"`, `message "3"`}, 0, false},
		"lines":         {"data: 1\ndata\ndata:  2\n\n", []string{`message "1\n\n 2"`}, 0, false},
		"comments":      {": a\n\n:\n:b\ndata: 1\n: c\n\n", []string{`message "1"`}, 4, false},
		"other fields":  {"id: 1\nretry: 3\nfoo\nDATA: 2\n\ndata: 1\n\n", []string{`message "1"`}, 0, false},
		"name only":     {"event: done\n\ndata: 1\n\n", []string{"done none", `message "1"`}, 0, false},
		"empty data":    {"data\n\ndata:\n\n", []string{`message ""`, `message ""`}, 0, false},
		"empty name":    {"event: a\nevent:\ndata: 1\n\n", []string{`message "1"`}, 0, false},
		"mark":          {"\ufeffdata: 1\n\n\ufeffdata: 2\n\n", []string{`message "1"`}, 0, false},
		"unfinished":    {"data: 1\n\ndata: 2\n", []string{`message "1"`}, 0, true},
		"half a line":   {"data: 1\n\n: ", []string{`message "1"`}, 0, true},
		"nothing":       {"\n\r\n\n", nil, 0, false},
		"colon in data": {"data: a: b\n\n", []string{`message "a: b"`}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1000, 1, 2, 3} {
				got, comments, unfinished, err := frames([]byte(c.stream), n)
				if err != nil || !reflect.DeepEqual(got, c.want) || comments != c.comments ||
					unfinished != c.unfinished {
					t.Errorf("in parts of %d: %q, %d comments, unfinished %v, error %v", n, got, comments, unfinished,
						err)
				}
			}
		})
	}
}

func FuzzParser(f *testing.F) {
	for _, s := range []string{
		": connected\n\n" + hello + last + done, strings.ReplaceAll(hello+done, "\n", "\r\n"), "data: 1\r\rdata\n\n",
		"\ufeffevent:a\n\n", "::\n:", "data: \xff\n\n",
	} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, stream []byte, n int) {
		list, comments, unfinished, err := frames(stream, len(stream)+1)
		for _, n := range []int{1, n&15 + 1} {
			list2, comments2, unfinished2, err2 := frames(stream, n)
			if !reflect.DeepEqual(list, list2) || comments != comments2 || unfinished != unfinished2 || err != err2 {
				t.Fatalf("%q\nin parts of %d %q, %d, %v, %v\nat once %q, %d, %v, %v", stream, n, list2, comments2,
					unfinished2, err2, list, comments, unfinished, err)
			}
		}
		if max := bytes.Count(stream, []byte("data")) + bytes.Count(stream, []byte("event")); len(list) > max {
			t.Fatalf("%d events in %q", len(list), stream)
		}
	})
}

// FuzzAnswer checks that any answer of a server is judged, and that an incomplete one is never
// accepted.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		hello + last + done, event("tool_call", `"tool_call":{"command":"take_photo","x":1}`, false),
		event("follow_up", `"follow_up":["a"]`, true) + done,
		"event: error\ndata: {\"message\":1}\n\n", "data: [DONE]\n\n", "event: done\n\n",
		"data: " + failed + "\n\nevent: done\ndata: " + failed + "\n\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		calls := 0
		r := newReader(DocumentedText("1021", "7", "x"), func(Event) { calls++ }, func() *time.Timer { return nil })
		err := r.read(bytes.NewReader(stream), false)
		r.checkStream()
		a := r.answer
		if err == nil && len(a.Violations) == 0 {
			if !a.Finished || bytes.Count(stream, []byte("done")) == 0 || !bytes.Contains(stream, []byte("true")) {
				t.Fatalf("nothing is wrong with %q", stream)
			}
		}
		if calls != r.events || a.Pieces > calls || len(a.Commands) > calls {
			t.Fatalf("%d events, %d calls, %+v", r.events, calls, a)
		}
	})
}
