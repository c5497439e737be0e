package xiaozhi

import (
	"testing"
	"time"
)

func TestQuietAfter(t *testing.T) {
	for answer, want := range map[string]time.Duration{
		"The light is on.":        quietAfterShort,
		"灯已经打开了。":                 quietAfterShort,
		"Which lamp do you mean?": 0,
		"你要打开哪一盏灯？":               0,
		"Rain in the morning, sun at noon, and in the evening there may be a storm.": quietAfterLong,
	} {
		if got := quietAfter(answer); got != want {
			t.Errorf("%s: %s, want %s", answer, got, want)
		}
	}
}
