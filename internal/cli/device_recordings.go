package cli

import (
	"cmp"
	"context"
	"io"
	"strconv"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type deviceRecordingsCmd struct {
	Text        string `help:"Only turns whose question or answer contains this text." placeholder:"TEXT"`
	From        string `help:"Only from this day on, as 2026-11-25." placeholder:"DAY"`
	Until       string `help:"Only until this day, as 2026-11-25; the day is included." placeholder:"DAY"`
	Limit       int    `help:"Maximum number of turns that are listed, up to 200." default:"50" placeholder:"N"`
	Out         string `help:"Write sounds, texts and tool calls to this ZIP file." placeholder:"FILE"`
	Delete      bool   `help:"Permanently delete everything that is recorded of the device."`
	Yes         bool   `short:"y" help:"Do not ask for confirmation."`
	deviceFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (deviceRecordingsCmd) Help() string {
	return `Without --out and --delete, the recorded turns are listed, newest first. Only the owner of the device and the operator of the server can read them. patchbay device voice turns recording on and off.

Examples:

    patchbay device voice kitchen --set record=30
    patchbay device recordings kitchen --text weather
    patchbay device recordings kitchen --from 2026-11-01 --out november.zip
    patchbay device recordings kitchen --delete`
}

const (
	msgRecordingAt       = i18n.Message("TIME")
	msgRecordingLength   = i18n.Message("LENGTH")
	msgRecordingQuestion = i18n.Message("QUESTION")
	msgRecordingAnswer   = i18n.Message("ANSWER")
	msgRecordsNothing    = i18n.Message("%s is not recorded. Stored: %d turns, %.1f MiB.")
	msgRecordsFor        = i18n.Message("%s is recorded; each turn is kept for %d days. Stored: %d turns, %.1f MiB.")
	msgRemoveRecordings  = i18n.Message("Delete all recordings of device %d (%s) for good?")
	msgRecordingsGone    = i18n.Message("%d recordings are deleted.")
	msgRecordingsSaved   = i18n.Message("Written to %s: %d turns.")
	msgBadDay            = i18n.Message("%s is %q; write a day as 2026-11-25")
)

// Run lists, exports or deletes recordings.
func (c *deviceRecordingsCmd) Run(ctx context.Context, sh *shell) error {
	q := control.RecordingQuery{Device: c.Device, Text: c.Text, Limit: c.Limit}
	if err := c.days(&q); err != nil {
		return err
	}
	if c.Delete && (c.Out != "" || c.Text != "" || c.From != "" || c.Until != "") {
		return usage(i18n.Message("--delete deletes everything; use it without other options"))
	}
	return c.connect(ctx, sh, func(at *conn) error {
		switch {
		case c.Delete:
			return c.remove(ctx, sh, at)
		case c.Out != "":
			return c.export(ctx, sh, at, q)
		}
		list, err := api.Recordings.Call(ctx, at.Client, q)
		if err != nil {
			return missingDevice(err, c.Device)
		}
		return sh.result(list, func() { sh.recordingTable(list) })
	})
}

// remove deletes everything that is recorded.
func (c *deviceRecordingsCmd) remove(ctx context.Context, sh *shell, at *conn) error {
	d, err := c.find(ctx, at)
	if err != nil {
		return err
	}
	if !c.Yes && !sh.confirm(ctx, msgRemoveRecordings, d.Number, d.Name) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return i18n.Message("nothing was removed; answer y, or give --yes").Errorf()
	}
	out, err := api.RemoveRecordings.Call(ctx, at.Client, control.DeviceRef{Device: strconv.FormatInt(d.Number, 10)})
	if err != nil {
		return err
	}
	return sh.result(out, func() { sh.say(msgRecordingsGone, out.Removed) })
}

// days reads the days of the options.
func (c *deviceRecordingsCmd) days(q *control.RecordingQuery) error {
	for _, o := range []struct {
		name, text string
		at         *time.Time
	}{{"--from", c.From, &q.From}, {"--until", c.Until, &q.Until}} {
		if o.text == "" {
			continue
		}
		day, err := time.ParseInLocation(time.DateOnly, o.text, time.Local)
		if err != nil {
			return usage(msgBadDay, o.name, o.text)
		}
		*o.at = day
	}
	if !q.Until.IsZero() {
		q.Until = q.Until.AddDate(0, 0, 1)
	}
	return nil
}

// export writes the archive.
func (c *deviceRecordingsCmd) export(ctx context.Context, sh *shell, at *conn, q control.RecordingQuery) error {
	turns, err := writeWhole(c.Out, func(w io.Writer) (int, error) {
		file, turns, err := at.ExportRecordings(ctx, q)
		if err != nil {
			return 0, missingDevice(err, c.Device)
		}
		defer file.Close()
		if _, err := io.Copy(w, file); err != nil {
			return 0, i18n.Message("the file was not received completely: %v").Errorf(err)
		}
		return turns, nil
	})
	if err != nil {
		return err
	}
	return sh.result(map[string]any{"file": c.Out, "turns": turns},
		func() { sh.say(msgRecordingsSaved, c.Out, turns) })
}

// recordingTable prints recordings.
func (sh *shell) recordingTable(list control.Recordings) {
	size := float64(list.Usage.Bytes) / (1 << 20)
	if list.Days == 0 {
		sh.say(msgRecordsNothing, list.Name, list.Usage.Turns, size)
	} else {
		sh.say(msgRecordsFor, list.Name, list.Days, list.Usage.Turns, size)
	}
	var rows [][]string
	for _, r := range list.Recordings {
		rows = append(rows, []string{r.At.Local().Format("01-02 15:04:05"), recordingLength(r),
			cmp.Or(short(singleLine(r.Question), causeWidth), "–"), cmp.Or(short(singleLine(r.Answer), causeWidth), "–")})
	}
	if len(rows) > 0 {
		sh.table([]i18n.Message{msgRecordingAt, msgRecordingLength, msgRecordingQuestion, msgRecordingAnswer}, rows)
	}
}

// recordingLength returns the lengths of both sounds.
func recordingLength(r control.Recording) string {
	text := func(d time.Duration) string {
		if d == 0 {
			return "–"
		}
		return d.Round(100 * time.Millisecond).String()
	}
	return text(r.QuestionLength) + " + " + text(r.AnswerLength)
}
