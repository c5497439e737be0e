package cli

import (
	"archive/zip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/store"
)

// TestDeviceRecordings has what is said to a device recorded, lists it, writes it to a file, and
// deletes it.
func TestDeviceRecordings(t *testing.T) {
	d, b := withKitchen(t)
	if got := d.ok("device", "recordings", "kitchen"); got != "kitchen is not recorded. Stored: 0 turns, 0.0 MiB.\n" {
		t.Errorf("without any: %q", got)
	}
	if got := d.ok("device", "voice", "kitchen", "--set", "record=30"); !strings.Contains(got, "record") {
		t.Errorf("the settings are %s", got)
	}
	for i, text := range []string{"Is it raining?", "Is it late?"} {
		err := b.Store.Traces.Finish(t.Context(), store.Trace{Turn: text,
			At: time.Date(2026, 3, 23+i, 12, 0, 0, 0, time.Local)}, nil)
		if err == nil {
			err = b.Store.Recordings.Add(t.Context(), store.Recording{Turn: text, Device: 1, Question: text, Answer: "No.",
				QuestionLength: 1250 * time.Millisecond, Expires: time.Now().Add(time.Hour)},
				store.RecordedSound{Question: []byte("sound")})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := d.ok("device", "recordings", "kitchen", "--text", "RAIN"); !strings.Contains(got,
		"kept for 30 days. Stored: 2 turns") || !strings.Contains(got, "1.3s + –") || !strings.Contains(got, "raining?") ||
		strings.Contains(got, "late?") {
		t.Errorf("the list is %s", got)
	}
	var list control.Recordings
	d.json(&list, "device", "recordings", "kitchen", "--until", "2026-03-23")
	if len(list.Recordings) != 1 || list.Recordings[0].Question != "Is it raining?" {
		t.Errorf("until that day: %+v", list.Recordings)
	}
	if got := d.found("recordings of boards"); !strings.HasPrefix(got, "ok 2 turns, 0.0 MiB") {
		t.Errorf("doctor says %q", got)
	}
	file := filepath.Join(t.TempDir(), "kitchen.zip")
	if got := d.ok("device", "recordings", "kitchen", "--from", "2026-03-24", "--out", file); !strings.HasSuffix(got,
		": 1 turns.\n") {
		t.Errorf("the export says %q", got)
	}
	z, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if len(z.File) != 2 || !strings.HasSuffix(z.File[0].Name, "-question.ogg") {
		t.Errorf("the archive has %d files", len(z.File))
	}
	d.failing(exitUsage, "", []string{"device", "recordings", "kitchen", "--from", "today"}, "write a day as")
	d.failing(exitUsage, "", []string{"device", "recordings", "kitchen", "--delete", "--text", "x"}, "everything")
	d.failing(exitFailed, "", []string{"device", "recordings", "kitchen", "--delete"}, "--yes")
	d.failing(exitFailed, "", []string{"device", "recordings", "nothing"}, "no device")
	if got := d.ok("device", "recordings", "kitchen", "--delete", "--yes"); got != "2 recordings are deleted.\n" {
		t.Errorf("deleting says %q", got)
	}
}
