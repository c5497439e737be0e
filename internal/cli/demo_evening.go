package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
)

const (
	msgPocketHas   = i18n.Message("the pocket page takes %d cards along, with pictures and sounds, and the train has no network")
	msgPocketSent  = i18n.Message("%d reviews are sent afterwards, twice; each counts once")
	msgEdited      = i18n.Message("edit_knowledge_points tag:flags: %d are tagged europe; undone again for %d")
	msgFitted      = i18n.Message("fit_memory over %d reviews: log-loss %.3f → %.3f, RMSE %.3f → %.3f")
	msgCosts       = i18n.Message("simulate_retention, for a year: 0.90 costs %.1f reviews a day, 0.95 %.1f")
	msgStatsOfDay  = i18n.Message("today: %d reviews, %d forgotten; %d points; %d remain; remembered in 30 days: %.0f %%")
	msgEveningNote = i18n.Message("offline reviews merged, weights fitted to the learner, statistics read")
)

// pocketReviews is how many cards are reviewed without the server.
const pocketReviews = 2

// playEvening reviews on the page that needs no server, edits many points, adds one with a program
// for Anki, fits the memory model to the reviews, and reads the statistics.
func playEvening(ctx context.Context, st *demoRun) error {
	for _, step := range []func(context.Context) error{st.reviewOffline, st.editMany, st.addFromAnki, st.fitMemory,
		st.readStats} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	st.note = msgEveningNote.In(st.sh.lang)
	return nil
}

// reviewOffline does what the page /learn/offline does: it takes the queue along, and sends the
// reviews later. Sent twice, as after a lost answer, they count once.
func (st *demoRun) reviewOffline(ctx context.Context) error {
	b, _, err := st.browser(ctx)
	if err != nil {
		return err
	}
	defer b.http.CloseIdleConnections()
	var pack learn.Pack
	if err := b.json(ctx, http.MethodGet, "/learn/offline/queue", nil, &pack); err != nil {
		return err
	}
	st.line("⇠", msgPocketHas.In(st.sh.lang, len(pack.Cards)))
	var sent control.LearnSync
	media := 0
	for _, c := range pack.Cards {
		media += len(c.Media)
		if len(c.Media) == 0 || c.Card.Reps == 0 || c.Card.Due > pack.Today || len(sent.Reviews) == pocketReviews {
			continue
		}
		sent.Reviews = append(sent.Reviews, control.LearnOfflineReview{Review: "train-" + c.ID, Point: c.ID,
			Grade: "good", At: time.Now().UTC().Add(-time.Duration(len(sent.Reviews)) * time.Second), TookMS: 2500})
	}
	if len(sent.Reviews) != pocketReviews || media == 0 {
		return fmt.Errorf("of %d cards, with %d pictures and sounds, %d can be reviewed", len(pack.Cards), media,
			len(sent.Reviews))
	}
	for _, want := range []learn.MergeStatus{learn.MergeCounted, learn.MergeAlready} {
		var got control.LearnSynced
		if err := b.json(ctx, http.MethodPost, "/learn/offline/reviews", sent, &got); err != nil {
			return err
		}
		if len(got.Results) != pocketReviews || slices.ContainsFunc(got.Results,
			func(r control.LearnSyncedReview) bool { return r.Status != want }) {
			return fmt.Errorf("the reviews of the train are %+v, not %s", got.Results, want)
		}
	}
	st.line("⇢", msgPocketSent.In(st.sh.lang, pocketReviews))
	return nil
}

// editMany tags all flags, and takes that back.
func (st *demoRun) editMany(ctx context.Context) error {
	edited, err := api.EditPoints.Call(ctx, st.at, control.LearnEdit{Query: "tag:flags", AddTags: []string{"europe"}})
	if err != nil {
		return err
	}
	undone, err := api.UndoEdit.Call(ctx, st.at, control.LearnEditUndo{})
	if err != nil {
		return err
	}
	if edited.Changed == 0 || undone.Points != edited.Changed {
		return fmt.Errorf("%d points were edited, and %d restored", edited.Changed, undone.Points)
	}
	st.line("⇢", msgEdited.In(st.sh.lang, edited.Changed, undone.Points))
	return nil
}

// fitMemory fits the weights to the reviews of the months before and of today, and simulates what
// another retention would cost.
func (st *demoRun) fitMemory(ctx context.Context) error {
	report, err := api.FitMemory.Call(ctx, st.at, control.LearnFit{})
	if err != nil {
		return err
	}
	if len(report.Fits) != 1 {
		return fmt.Errorf("the fit led to %+v", report.Fits)
	}
	f := report.Fits[0]
	if !f.Applied || f.After.LogLoss >= f.Before.LogLoss {
		return fmt.Errorf("the fit led to %+v", f)
	}
	st.line("⇢", msgFitted.In(st.sh.lang, f.Reviews, f.Before.LogLoss, f.After.LogLoss, f.Before.RMSE, f.After.RMSE))
	costs, err := api.SimulateRetention.Call(ctx, st.at, control.LearnSimulation{Retentions: "0.9,0.95", Seed: 1})
	if err != nil {
		return err
	}
	if len(costs.Results) != 2 {
		return fmt.Errorf("the simulation gave %+v", costs)
	}
	st.line("⇢", msgCosts.In(st.sh.lang, costs.Results[0].Reviews, costs.Results[1].Reviews))
	return nil
}

// readStats reads the statistics of the day.
func (st *demoRun) readStats(ctx context.Context) error {
	s, err := api.LearnStats.Call(ctx, st.at, control.LearnStatsQuery{Back: 30})
	if err != nil {
		return err
	}
	if want := 4 + 2 + pocketReviews; s.Done.Reviews != want || len(s.History) < 2 {
		return fmt.Errorf("the statistics have %d reviews today and %d days, want %d and several", s.Done.Reviews,
			len(s.History), want)
	}
	st.line("⇠", msgStatsOfDay.In(st.sh.lang, s.Done.Reviews, s.Done.Again, s.Points, s.Left.Total(), 100*s.Retention))
	return nil
}

// json sends JSON and reads JSON, as a script of a page does.
func (b *demoBrowser) json(ctx context.Context, method, path string, in, into any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, b.st.url+path, &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	text, err := b.do(req)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}
