package devices_test

import (
	"net/http"
	"testing"
	"time"

	"patchbay/internal/store"
)

func TestRecordings(t *testing.T) {
	h := newInstance(t)
	ada := h.SignedInAs(h.Person)
	if p := ada.Get("/devices/1/recordings"); !p.Contains("Conversations are not recorded", "No recordings") {
		t.Errorf("without any, ada sees %s", p.Text)
	}
	if p := ada.Post("/devices/1/voice", "record", "400"); p.Status != 422 || !p.Contains("set-record-wrong") {
		t.Errorf("400 days give %d %s", p.Status, p.Text)
	}
	ada.Post("/devices/1/voice", "record", "30")
	for _, turn := range []string{"rain", "sun"} {
		err := h.Store.Traces.Finish(t.Context(), store.Trace{Turn: turn, Owner: h.Person.ID, At: time.Now()}, nil)
		if err == nil {
			err = h.Store.Recordings.Add(t.Context(), store.Recording{Turn: turn, Device: h.kettle.Number,
				Expires: time.Now().Add(time.Hour), Question: "what about <" + turn + ">", Answer: "none",
				QuestionLength: 1200 * time.Millisecond}, store.RecordedSound{Question: []byte("sound of " + turn)})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p := ada.Get("/devices/1/recordings")
	if !p.Contains("kept for 30 days", "Stored: 2 turns, 25 B.", "what about &lt;rain&gt;", "Question, 1.2 s",
		`src="/activity/turns/rain/sound/question"`) || p.Contains("/sound/answer") {
		t.Errorf("ada sees %s", p.Text)
	}
	if p := ada.Get("/devices/1/recordings?text=SUN"); !p.Contains("&lt;sun&gt;", "/recordings/export?text=SUN") ||
		p.Contains("&lt;rain&gt;") {
		t.Errorf("looking for the sun, ada sees %s", p.Text)
	}
	if p := ada.Get("/devices/1/recordings?text=snow"); !p.Contains("No recording fits") {
		t.Errorf("looking for snow, ada sees %s", p.Text)
	}
	if p := ada.Get("/devices/1/recordings/export?text=sun"); p.Header.Get("Content-Type") != "application/zip" ||
		!p.Contains("sound of sun") || p.Contains("sound of rain") {
		t.Errorf("the archive is %d %q", p.Status, p.Text)
	}
	if p := ada.Post("/devices/1/recordings/delete"); p.Status != http.StatusOK ||
		!p.Contains("The recordings are deleted.", "No recordings") {
		t.Errorf("after deleting them, ada sees %d %s", p.Status, p.Text)
	}
}
