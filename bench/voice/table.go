package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"patchbay/internal/voice/endpoint/endpointtest"
)

// tableRow is how well the end of speech is found with a noise behind it.
type tableRow struct {
	Noise string `json:"noise"`
	endpointtest.Counts
	P50 millis `json:"delay_p50_ms"` // from the end of speech to its detection; the pause is 800 ms
	P95 millis `json:"delay_p95_ms"`
}

// measureTable finds the end of all recordings with all noises. It reads the recordings, so it runs
// in the root of the sources.
func measureTable(ctx context.Context) (rows []tableRow, err error) {
	all, err := endpointtest.Clips("internal/voice")
	if err != nil {
		return nil, err
	}
	for _, noise := range endpointtest.Noises {
		c, err := endpointtest.Listen(ctx, all, all, noise, true)
		if err != nil {
			return nil, err
		}
		rows = append(rows, tableRow{noise.String(), c, inMillis(c.Delay(.5)), inMillis(c.Delay(.95))})
	}
	return rows, nil
}

func printTable(out io.Writer, rows []tableRow) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "noise\tutterances\tmissed\tcut\tno end\tfalse starts\tend p50 ms\tp95\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%.0f\t%.0f\t\n", r.Noise, r.Utterances, r.Missed, r.Cut, r.Stuck,
			r.FalseStarts, r.P50, r.P95)
	}
	w.Flush() //nolint:errcheck // standard output
}
