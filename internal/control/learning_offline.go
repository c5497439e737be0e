package control

import (
	"cmp"
	"context"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/problem"
)

// LearnOfflineQuery says for how long a device goes without the server.
type LearnOfflineQuery struct {
	Days int `query:"days"` // after today, 1 to 30; 0: 7
}

// defaultOfflineDays is how many days a device takes along.
const defaultOfflineDays = 7

// Offline returns what a device needs to review without the server.
func (p *Learning) Offline(ctx context.Context, c Caller, in LearnOfflineQuery) (*learn.Pack, error) {
	person, err := p.person(c, "list_knowledge_points")
	if err != nil {
		return nil, err
	}
	pack, err := p.points.Pack(ctx, person, cmp.Or(in.Days, defaultOfflineDays))
	return pack, LearnError(err)
}

// LearnOfflineReview is a review that was made without the server.
type LearnOfflineReview struct {
	Review string    `json:"review_id"` // id of the device, at most 100 bytes; the same one counts once
	Point  string    `json:"knowledge_point_id"`
	Grade  GradeText `json:"grade"`
	At     time.Time `json:"at"`
	TookMS int64     `json:"took_ms,omitempty"`
	Recall string    `json:"recall_text,omitempty"`
}

// LearnSync is what a device did without the server.
type LearnSync struct {
	// Person guards against reviews of somebody who used the device before: if it is not the id of
	// the caller's person, nothing is taken.
	Person  string               `json:"person,omitempty"`
	Reviews []LearnOfflineReview `json:"reviews"`
	Undone  []string             `json:"undone,omitempty"` // ids of reviews that were taken back
}

// LearnSynced is what became of the reviews, in their order, and then of those that were undone.
type LearnSynced struct {
	Results []LearnSyncedReview `json:"results"`
}

// LearnSyncedReview is what became of a review.
type LearnSyncedReview struct {
	Review string            `json:"review_id"`
	Status learn.MergeStatus `json:"status"`
	Error  string            `json:"error,omitempty"`
}

// Sync takes reviews that were made without the server, and computes the state of their points from
// all their reviews, in the order of their times. What is wrong with one refuses no other.
func (p *Learning) Sync(ctx context.Context, c Caller, in LearnSync) (out LearnSynced, err error) {
	person, err := p.person(c, "submit_review")
	if err == nil && len(in.Undone) > 0 {
		_, err = p.person(c, "undo_review")
	}
	if err != nil {
		return out, err
	}
	if in.Person != "" && in.Person != person {
		return out, problem.New(problem.Conflict, msgOtherPerson)
	}
	do := learn.Offline{Undone: in.Undone, Channel: c.Program}
	for _, r := range in.Reviews {
		grade, err := learn.ParseGrade(string(r.Grade))
		if err != nil {
			grade = -1 // refused below, with the others counted
		}
		took := min(max(r.TookMS, -1), checkTook.Milliseconds()+1) // no overflow
		do.Reviews = append(do.Reviews, learn.OfflineReview{ID: r.Review, Point: r.Point, Grade: grade, At: r.At,
			Took: time.Duration(took) * time.Millisecond, Recall: r.Recall})
	}
	var results []learn.MergeResult
	err = p.recordChange(c, "submit_review", in, func() (err error) {
		results, err = p.points.Merge(ctx, person, do)
		return err
	})
	if err != nil {
		return out, err
	}
	out.Results = make([]LearnSyncedReview, len(results))
	for i, r := range results {
		out.Results[i] = LearnSyncedReview{Review: r.Review, Status: r.Status}
		if e := AsError(r.Err); e != nil {
			out.Results[i].Error = e.In(c.Lang)
		}
	}
	return out, nil
}

const msgOtherPerson = i18n.Message("These reviews are of another person, who used this device before.")
