package learn

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/fsrs"
	"patchbay/internal/plug/learn/fsrs/fit"
	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	// maxFits is how many people's weights are fitted concurrently. Each needs a processor for some
	// seconds, and 60 bytes of memory for each review.
	maxFits = 1
	// minFitItems is how many reviews are learned from at least: with fewer, the fit returns the
	// published weights.
	minFitItems = 8
	// minDeckReviews is how many a deck needs for weights of its own, unless it is named.
	minDeckReviews = 1000
	// maxFitReviews limits the memory of a fit. The newest ones are used.
	maxFitReviews = 2_000_000
	// fitHistory is how many fits are looked through for those to undo.
	fitHistory = 1000
	// weightDigits is the number of digits behind the point that are kept of a weight.
	weightDigits = 1e4
)

const (
	msgFitBusy    = i18n.Message("Another fit is running; try again in a moment.")
	msgNoFit      = i18n.Message("There is no fit to undo.")
	msgFitChanged = i18n.Message("The weights were changed since the fit; set them in the settings.")
)

// Outcomes of a fit.
const (
	FitBetter    = "better"     // the new weights predict the reviews better
	FitNotBetter = "not_better" // they do not; the old ones stay
	FitTooFew    = "too_few"    // there are not enough reviews
	FitUndone    = "undone"     // the weights before the fit are back
)

// FitOptions select what is fitted.
type FitOptions struct {
	// Deck is the name of a deck that gets weights of its own; empty: the settings that all decks
	// have in common, and those decks with settings and enough reviews of their own.
	Deck     string
	DryRun   bool                  // changes nothing
	Progress func(done, total int) // of reviews; nil: it is not reported
}

// FitResult tells what a fit led to.
type FitResult struct {
	Deck    string `json:"deck"`    // "default" stands for the settings that all decks have in common
	Reviews int    `json:"reviews"` // in the log
	Learned int    `json:"learned_from"`
	Outcome string `json:"outcome"`
	Applied bool   `json:"applied"`
	// Before and After say how well the weights before and after the fit predict the reviews.
	Before *fit.Measure `json:"before,omitempty"`
	After  *fit.Measure `json:"after,omitempty"`
	// Weights are the new ones, or the old ones that an undo brought back; null: the published.
	Weights []float64 `json:"weights"`
	// Points is the number of points whose memory was computed again from their reviews.
	Points int       `json:"points"`
	At     time.Time `json:"at,omitzero"`
}

// FitReport is the result of [Service.Fit] and [Service.UndoFit].
type FitReport struct {
	Fits   []FitResult `json:"fits"`
	DryRun bool        `json:"dry_run,omitempty"`
}

// fitScope is a group of points that share weights.
type fitScope struct {
	deck     string // ID; empty: common
	settings schedule.Settings
	set      *fit.Set
	versions map[int64]int64 // of the points, by number, when their reviews were read
}

// Fit fits the weights of FSRS to a person's reviews, and takes them where they predict these
// better than those before. Due dates stay; the memory of each point is computed again. It fails
// with [problem.Unavailable] while another fit runs.
func (s *Service) Fit(ctx context.Context, person string, o FitOptions) (*FitReport, error) {
	release, err := s.reserveFit()
	if err != nil {
		return nil, err
	}
	defer release()
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	scopes, err := s.fitScopes(ctx, l, o.Deck)
	if err != nil {
		return nil, err
	}
	out := &FitReport{DryRun: o.DryRun, Fits: []FitResult{}}
	progress := fitProgress(scopes, o.Progress)
	common, renewed := weightsOf(l.common), false
	for _, scope := range scopes {
		r, err := s.fitScope(ctx, l, scope, common, o.DryRun, progress(scope))
		if err != nil {
			return nil, err
		}
		switch {
		case scope.deck == "" && r.Outcome == FitBetter:
			common, renewed = fsrs.Weights(r.Weights), r.Applied
		case renewed && !r.Applied && !l.hasOwnWeights(scope.deck):
			scope.settings.Weights = common[:] // the deck has the new common ones
			if r.Points, err = s.renewMemories(context.WithoutCancel(ctx), person, scope); err != nil {
				return nil, err
			}
		}
		out.Fits = append(out.Fits, r)
	}
	return out, nil
}

func (s *Service) reserveFit() (release func(), err error) {
	select {
	case s.fitting <- struct{}{}:
		return func() { <-s.fitting }, nil
	default:
		return nil, problem.New(problem.Unavailable, msgFitBusy).RetryIn(10 * time.Second)
	}
}

// fitProgress divides the progress of a fit among its scopes, by their reviews.
func fitProgress(scopes []*fitScope, report func(done, total int)) func(*fitScope) func(done, total int) {
	total, before := 0, 0
	for _, scope := range scopes {
		total += scope.set.Items()
	}
	return func(scope *fitScope) func(done, total int) {
		begun, items := before, scope.set.Items()
		before += items
		if report == nil || total == 0 {
			return nil
		}
		report(begun, total)
		return func(done, of int) { report(begun+int(int64(done)*int64(items)/int64(max(of, 1))), total) }
	}
}

// fitScopes reads the log. With the name of a deck there is one scope, and otherwise that of the
// common settings first.
func (s *Service) fitScopes(ctx context.Context, l *Learner, deck string) ([]*fitScope, error) {
	named, id := deck != "", ""
	if named {
		var ok bool
		if id, ok = l.DeckID(deck); !ok {
			return nil, l.DeckNotFound(deck)
		}
		named = id != "" // the default deck has the common settings
	}
	reviews, err := s.pastReviews(ctx, l)
	if err != nil {
		return nil, err
	}
	common := &fitScope{settings: l.common}
	scopes := []*fitScope{common}
	byDeck := map[string]*fitScope{}
	if named {
		scopes[0] = &fitScope{deck: id, settings: l.Settings(id)}
		byDeck[id] = scopes[0]
	} else {
		counts := map[string]int{}
		for _, r := range reviews {
			counts[r.Deck]++
		}
		for _, d := range l.Decks {
			if hasSettings(d.Settings) && counts[d.ID] >= minDeckReviews || l.hasOwnWeights(d.ID) {
				scope := &fitScope{deck: d.ID, settings: l.Settings(d.ID)}
				scopes, byDeck[d.ID] = append(scopes, scope), scope
			}
		}
	}
	for _, scope := range scopes {
		scope.set, scope.versions = fit.NewSet(), map[int64]int64{}
	}
	last := map[int64]store.Day{}
	for _, r := range reviews {
		scope := byDeck[r.Deck]
		if scope == nil && !named {
			scope = common
		}
		before, known := last[r.Point]
		last[r.Point] = r.Day
		if scope == nil {
			continue
		}
		elapsed := max(int(r.Day-before), 0)
		if r.First || !known {
			elapsed = -1
		}
		scope.set.Add(r.Point, int(r.Grade), elapsed)
		scope.versions[r.Point] = r.Version
	}
	return scopes, nil
}

// hasSettings reports whether a deck has settings of its own.
func hasSettings(own json.RawMessage) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(own, &members) == nil && len(members) > 0
}

// hasOwnWeights reports whether a deck has weights of its own.
func (l *Learner) hasOwnWeights(deck string) bool {
	return string(ownWeights(l.deck(deck).Settings)) != "null"
}

// pastReviews returns a person's reviews in their order, without those that were undone.
func (s *Service) pastReviews(ctx context.Context, l *Learner) ([]store.PastReview, error) {
	var out []store.PastReview
	ids := map[string]string{} // the same text once for all reviews
	for _, d := range l.Decks {
		ids[d.ID] = d.ID
	}
	err := s.Store.Learn.ReadReviews(ctx, l.Person, func(r store.PastReview) error {
		r.Deck = ids[r.Deck] // a deck that is gone: the default one
		if out = append(out, r); len(out) >= 2*maxFitReviews {
			out = slices.Delete(out, 0, maxFitReviews)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the review log: %w", err)
	}
	return out[max(0, len(out)-maxFitReviews):], nil
}

// fitScope fits the weights of one scope.
func (s *Service) fitScope(ctx context.Context, l *Learner, scope *fitScope, common fsrs.Weights, dry bool,
	progress func(done, total int)) (FitResult, error) {
	set := scope.set
	r := FitResult{Deck: l.DeckName(scope.deck), Reviews: set.Reviews(), Learned: set.Items(), Outcome: FitTooFew}
	old := weightsOf(scope.settings)
	if scope.deck != "" && !l.hasOwnWeights(scope.deck) {
		old = common
	}
	if set.Items() < minFitItems {
		return r, nil
	}
	w, err := fit.Fit(ctx, set, fit.Options{SameDay: len(scope.settings.Steps) > 0,
		Relearn: len(scope.settings.Relearn), Workers: fitWorkers(), Progress: progress})
	if err != nil {
		return r, err
	}
	for i := range w { // longer numbers are no better, and hard to read
		w[i] = float64(int64(w[i]*weightDigits+0.5)) / weightDigits
	}
	before, err := set.Measure(ctx, old)
	if err != nil {
		return r, err
	}
	after, err := set.Measure(ctx, w)
	if err != nil {
		return r, err
	}
	r.Before, r.After, r.Weights = &before, &after, w[:]
	r.Outcome = FitBetter
	if after.LogLoss >= before.LogLoss {
		r.Outcome = FitNotBetter
	}
	if r.Outcome != FitBetter || dry {
		return r, nil
	}
	r.Applied, r.At = true, l.Now
	return r, s.takeFit(ctx, l, scope, &r)
}

// fitWorkers leaves half of the processors to those who wait for answers.
func fitWorkers() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// weightsOf returns the weights of settings.
func weightsOf(s schedule.Settings) fsrs.Weights {
	if len(s.Weights) != len(fsrs.Weights{}) {
		return fsrs.Published
	}
	return fsrs.Weights(s.Weights)
}

// takeFit sets fitted weights. The fit is recorded first, so that it can be undone in any case.
// From then on the end of ctx ends nothing.
func (s *Service) takeFit(ctx context.Context, l *Learner, scope *fitScope, r *FitResult) error {
	ctx = context.WithoutCancel(ctx)
	own := l.Profile.Defaults
	if scope.deck != "" {
		own = l.deck(scope.deck).Settings
	}
	after, err := json.Marshal(r.Weights)
	if err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	err = s.Store.Learn.AddFit(ctx, store.Fit{ID: newID(), Person: l.Person, Deck: scope.deck, At: l.Now,
		Before: ownWeights(own), After: after, Result: text})
	if err != nil {
		return fmt.Errorf("record a fit: %w", err)
	}
	if err := s.setWeights(ctx, l.Person, scope.deck, after); err != nil {
		return err
	}
	scope.settings.Weights = r.Weights
	r.Points, err = s.renewMemories(ctx, l.Person, scope)
	return err
}

// ownWeights returns the setting weights of a JSON object, or null.
func ownWeights(settings json.RawMessage) json.RawMessage {
	var own struct {
		Weights json.RawMessage `json:"weights"`
	}
	if len(settings) > 0 && json.Unmarshal(settings, &own) != nil || len(own.Weights) == 0 {
		return json.RawMessage("null")
	}
	return own.Weights
}

// setWeights changes the setting weights of a deck, or with an empty ID the common one.
func (s *Service) setWeights(ctx context.Context, person, deck string, weights json.RawMessage) error {
	change, err := json.Marshal(map[string]json.RawMessage{"weights": weights})
	if err != nil {
		return err
	}
	if deck == "" {
		change, err = json.Marshal(map[string]json.RawMessage{"defaults": change})
		if err == nil {
			_, err = s.SaveProfile(ctx, person, change, nil)
		}
		return err
	}
	_, err = s.SaveDeck(ctx, person, DeckEdit{Name: deck, Settings: change}, nil)
	return err
}

// renewMemories computes the memory of the points of a scope again, and returns their number.
// Points of which the log does not have all reviews, or that have changed meanwhile, keep theirs.
func (s *Service) renewMemories(ctx context.Context, person string, scope *fitScope) (int, error) {
	w := weightsOf(scope.settings)
	var list []store.PointMemory
	scope.set.Memories(&w, len(scope.settings.Steps) > 0, func(point int64, m fsrs.Memory, reviews int) {
		list = append(list, store.PointMemory{Point: point, Version: scope.versions[point], Reps: reviews,
			Stability: m.Stability, Difficulty: m.Difficulty})
	})
	n, err := s.Store.Learn.SaveMemories(ctx, person, list)
	if err != nil {
		return n, fmt.Errorf("write the memory of points: %w", err)
	}
	return n, nil
}

// UndoFit brings back the weights before the last fit of a deck, or, without a name, those before
// all that the last fit changed. It fails with [problem.NotFound] if there is none, and with
// [problem.Conflict] if the weights were changed since.
func (s *Service) UndoFit(ctx context.Context, person, deck string) (*FitReport, error) {
	release, err := s.reserveFit()
	if err != nil {
		return nil, err
	}
	defer release()
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	fits, err := s.lastFits(ctx, l, deck)
	if err != nil {
		return nil, err
	}
	for _, f := range fits {
		if !sameJSON(s.currentWeights(l, f.Deck), f.After) {
			return nil, problem.New(problem.Conflict, msgFitChanged)
		}
	}
	out := &FitReport{Fits: []FitResult{}}
	for _, f := range fits {
		r, err := s.undoFit(ctx, person, f)
		if err != nil {
			return nil, err
		}
		out.Fits = append(out.Fits, r)
	}
	return out, nil
}

// lastFits returns the fits to undo. Those of decks that are gone are left out.
func (s *Service) lastFits(ctx context.Context, l *Learner, deck string) (out []store.Fit, err error) {
	id, ok := l.DeckID(deck)
	if !ok {
		return nil, l.DeckNotFound(deck)
	}
	all, err := s.Store.Learn.Fits(ctx, l.Person, fitHistory)
	if err != nil {
		return nil, fmt.Errorf("look up fits: %w", err)
	}
	for _, f := range all {
		gone := f.Deck != "" && l.deck(f.Deck) == nil
		if f.Undone || gone || deck != "" && f.Deck != id {
			continue
		}
		if len(out) > 0 && (deck != "" || !f.At.Equal(out[0].At)) {
			break
		}
		out = append(out, f)
	}
	if len(out) == 0 {
		return nil, problem.New(problem.NotFound, msgNoFit)
	}
	slices.SortFunc(out, func(a, b store.Fit) int { return cmp.Compare(a.Deck, b.Deck) }) // the common one first
	return out, nil
}

// currentWeights returns the setting weights of a deck, or with an empty ID the common one.
func (s *Service) currentWeights(l *Learner, deck string) json.RawMessage {
	if deck == "" {
		return ownWeights(l.Profile.Defaults)
	}
	return ownWeights(l.deck(deck).Settings)
}

// sameJSON reports whether two lists of weights are equal.
func sameJSON(a, b json.RawMessage) bool {
	var x, y []float64
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && slices.Equal(x, y)
}

func (s *Service) undoFit(ctx context.Context, person string, f store.Fit) (FitResult, error) {
	if err := s.setWeights(ctx, person, f.Deck, f.Before); err != nil {
		return FitResult{}, err
	}
	if err := s.Store.Learn.UndoFit(ctx, person, f.ID); err != nil {
		return FitResult{}, fmt.Errorf("record an undone fit: %w", err)
	}
	l, err := s.Learner(ctx, person)
	if err != nil {
		return FitResult{}, err
	}
	r := FitResult{Deck: l.DeckName(f.Deck), Outcome: FitUndone, At: f.At}
	if err := json.Unmarshal(f.Before, &r.Weights); err != nil {
		return r, fmt.Errorf("read the weights before a fit: %w", err)
	}
	name := strings.ToLower(DefaultDeck)
	if f.Deck != "" {
		name = f.Deck
	}
	scopes, err := s.fitScopes(ctx, l, name)
	if err != nil {
		return r, err
	}
	for _, scope := range scopes {
		if scope.deck == f.Deck {
			r.Reviews, r.Learned = scope.set.Reviews(), scope.set.Items()
			r.Points, err = s.renewMemories(ctx, person, scope)
		}
	}
	return r, err
}

// LastFit returns the last fits that were taken and can be undone; none: nil.
func (s *Service) LastFit(ctx context.Context, person string) ([]FitResult, error) {
	l, err := s.Learner(ctx, person)
	if err != nil {
		return nil, err
	}
	fits, err := s.lastFits(ctx, l, "")
	if problem.Is(err, problem.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := make([]FitResult, len(fits))
	for i, f := range fits {
		if err := json.Unmarshal(f.Result, &out[i]); err != nil {
			return nil, fmt.Errorf("read a fit: %w", err)
		}
		out[i].Deck = l.DeckName(f.Deck)
	}
	return out, nil
}
