package eyeclaw

import (
	"strings"
	"testing"

	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

func TestReceipt_settle(t *testing.T) {
	left := func(s string) leftover { return leftover{text: []byte(s)} }
	unsure := leftover{uncertain: true}
	for _, c := range []struct {
		name    string
		r       receipt
		s       *summary
		rest    string
		anomaly string
	}{
		{"no summary", receipt{emitted: "ab", chunks: 2}, nil, "", ""},
		{"no summary, something held", receipt{emitted: "ab", buffered: "ef", chunks: 3}, nil, "ef", anomalyMissing},
		{"nothing at all", receipt{}, &summary{"", 0}, "", ""},
		{"all there", receipt{emitted: "ab", chunks: 2}, &summary{"ab", 2}, "", ""},
		{"all there, behind leavings", receipt{emitted: "ab", chunks: 2}, &summary{"xxab", 2}, "", ""},
		{"all there, held without need", receipt{emitted: "ab", buffered: "c", chunks: 3}, &summary{"abc", 3}, "c", ""},
		{"tail lost", receipt{emitted: "ab", chunks: 2}, &summary{"abcd", 4}, "cd", ""},
		{"all lost", receipt{}, &summary{"abcd", 4}, "abcd", ""},
		{"hole", receipt{emitted: "ab", buffered: "e", chunks: 3}, &summary{"abcde", 5}, "cde", ""},
		{"count not given", receipt{emitted: "ab", chunks: 2}, &summary{"abcd", -1}, "cd", ""},
		{"count not given, nothing lost", receipt{emitted: "ab", chunks: 2}, &summary{"ab", -1}, "", ""},
		{"count too low", receipt{emitted: "ab", chunks: 2}, &summary{"abcd", 1}, "", anomalySummary},
		{"count too high for the text", receipt{emitted: "ab", chunks: 2}, &summary{"abc", 4}, "", anomalySummary},
		{"tail shorter than what was held", receipt{emitted: "ab", buffered: "ef", chunks: 3}, &summary{"abe", 4},
			"ef", anomalySummary},
		{"other text", receipt{emitted: "ab", chunks: 1}, &summary{"xyz", 3}, "", anomalySummary},
		{"nothing in it", receipt{emitted: "ab", chunks: 2}, &summary{"", 0}, "", anomalySummary},
		{"overlapped", receipt{emitted: "ab", chunks: 1, overlapped: true}, &summary{"abXc", 2}, "", anomalySummary},
		{"overlapped, counts fit by chance", receipt{emitted: "ab", chunks: 2, overlapped: true}, &summary{"aX", 2}, "",
			""},
		{"known leavings", receipt{emitted: "ab", chunks: 2, leftover: left("xx")}, &summary{"xxabcd", 4}, "cd", ""},
		{"known leavings, all lost", receipt{leftover: left("xx")}, &summary{"xxabcd", 4}, "abcd", ""},
		{"known leavings that look like the answer", receipt{emitted: "a", chunks: 1, leftover: left("a")},
			&summary{"aabc", 3}, "bc", ""},
		{"known leavings, then other text", receipt{emitted: "ab", chunks: 1, leftover: left("abX")},
			&summary{"abXYZ", 3}, "", anomalySummary},
		{"leavings gone with a restart", receipt{emitted: "ab", chunks: 2, leftover: left("xx")}, &summary{"abcd", 4},
			"cd", ""},
		{"unknown leavings", receipt{emitted: "ab", chunks: 2, leftover: unsure}, &summary{"xxabcd", 4}, "cd", ""},
		{"unsure but none", receipt{emitted: "ab", chunks: 2, leftover: unsure}, &summary{"abcd", 4}, "cd", ""},
		{"unknown leavings with the same words", receipt{emitted: "ab", chunks: 2, leftover: unsure},
			&summary{"abxxabcd", 4}, "", anomalySummary},
		{"unknown leavings, all lost", receipt{leftover: unsure}, &summary{"xxabcd", 4}, "", anomalySummary},
		{"leavings of before our time", receipt{emitted: "ab", chunks: 2}, &summary{"xxabcd", 4}, "cd", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rest, anomaly := c.r.reconcile(c.s)
			if rest != c.rest || anomaly != c.anomaly {
				t.Errorf("got %q, %q; want %q, %q", rest, anomaly, c.rest, c.anomaly)
			}
		})
	}
}

func TestSpill_bounded(t *testing.T) {
	var s leftover
	for range 1000 {
		s.add(strings.Repeat("x", 1000))
	}
	if len(s.text) > maxLeftover || !s.uncertain {
		t.Errorf("%d bytes, unsure %v", len(s.text), s.uncertain)
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct{ text, short, cause string }{
		{"OpenClaw API error: 500 - boom", "OpenClaw API error: 500 - boom", "OpenClaw API error: 500 - boom"},
		{"terminated", "terminated", "terminated"},
		{"", "", "the plugin reported an error without saying which"},
		{"two\nlines\tand\x00more", "two lines and more", "two lines and more"},
		{"OpenClaw API error: 502 - <html><body>Bad Gateway</body></html>", "OpenClaw API error: 502",
			"OpenClaw API error: 502 - <html><body>Bad Gateway</body></html>"},
		{"connect ECONNREFUSED 127.0.0.1:18789", "connect ECONNREFUSED …", "connect ECONNREFUSED 127.0.0.1:18789"},
		{"cannot fetch https://api.example/v1?key=abc now", "cannot fetch … now",
			"cannot fetch https://api.example/v1?key=… now"},
		{"no file /home/li/.openclaw/config.json there", "no file … there",
			"no file /home/li/.openclaw/config.json there"},
		{"bad header Bearer abc.def", "bad header …", "bad header …"},
		{`key sk-proj-0123456789abcdef refused`, "key … refused", "key … refused"},
		{"token=hunter2&x", "token=…&x", "token=…&x"},
		{"id " + strings.Repeat("0f", 32), "id …", "id …"},
		{strings.Repeat("很长", 100), strings.Repeat("很长", 39) + "很…", strings.Repeat("很长", 100)},
	} {
		f, owner := explain(c.text, i18n.Chinese)
		if f.Code != talk.BotFailed || f.Told != msgReported.In(i18n.Chinese) || f.Cause != c.cause {
			t.Errorf("%.60q: told %q, cause %q", c.text, f.Told, f.Cause)
		}
		if !strings.Contains(owner.In(i18n.English), c.short) || owner.In(i18n.Chinese) == owner.In(i18n.English) {
			t.Errorf("%.60q: the owner reads %v", c.text, owner)
		}
	}
}
