package learn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"patchbay/internal/store"
)

const (
	// maxEmbedBytes is how much of a point is embedded: models take 8,192 tokens,
	// and a token has more than a byte.
	maxEmbedBytes = 8 << 10
	// indexBatch is how many points are embedded at a time, and indexTurn how many of
	// one person before it is the next one's turn.
	indexBatch = 64
	indexTurn  = 1024
	// indexPeople is how many people are looked up at a time.
	indexPeople = 500
)

// Index embeds the points that have no vector by the present model, of everybody in
// turns. It is called again and again, by one instance at a time; several would do
// the same work twice. It stops at the first error that asking again may mend; a
// text that the model takes not at all is left out from then on, until it is
// changed.
func (s *Service) Index(ctx context.Context) error {
	if s.Embedder == nil {
		return nil
	}
	model := s.Embedder.Model()
	for after := ""; ; {
		people, err := s.Store.Learn.LackVectors(ctx, model, after, indexPeople)
		if err != nil {
			return fmt.Errorf("look up who lacks vectors: %w", err)
		}
		if len(people) == 0 {
			return nil
		}
		after = people[len(people)-1]
		begun := make(map[string]store.PointKey, len(people)) // until where a person is done
		for len(people) > 0 {
			var more []string
			for _, person := range people {
				last, done, err := s.indexPerson(ctx, person, model, begun[person])
				if err != nil {
					return err
				}
				if begun[person] = last; !done {
					more = append(more, person)
				}
			}
			people = more
		}
	}
}

// indexPerson embeds some of a person's points behind a key.
func (s *Service) indexPerson(ctx context.Context, person, model string, after store.PointKey) (last store.PointKey, done bool, err error) {
	last = after
	for range indexTurn / indexBatch {
		points, err := s.Store.Learn.WithoutVector(ctx, person, model, last, indexBatch)
		if err != nil {
			return last, false, fmt.Errorf("look up points without vectors: %w", err)
		}
		if len(points) == 0 {
			return last, true, nil
		}
		made, err := s.embedPoints(ctx, points)
		// What was made before an error is kept.
		if len(made) > 0 {
			if err := s.Store.Learn.SaveVectors(ctx, person, model, made); err != nil {
				return last, false, fmt.Errorf("save vectors: %w", err)
			}
			s.vectors.drop(person, slices.MinFunc(made, func(a, b store.Vector) int { return cmp.Compare(a.Point, b.Point) }).Point)
		}
		if err != nil {
			return last, false, fmt.Errorf("embed points: %w", err)
		}
		end := &points[len(points)-1]
		last = store.PointKey{At: end.Created, Number: end.Number}
		if len(points) < indexBatch {
			return last, true, nil
		}
	}
	return last, false, nil
}

// embedPoints makes the vectors of points. If the texts are refused, it
// looks for the one that is to blame, by halves.
func (s *Service) embedPoints(ctx context.Context, points []store.Point) ([]store.Vector, error) {
	texts := make([]string, len(points))
	for i := range points {
		texts[i] = embedded(&points[i])
	}
	got, err := s.Embedder.Embed(ctx, texts)
	if err == nil && len(got) != len(texts) {
		err = fmt.Errorf("%d vectors for %d texts", len(got), len(texts))
	}
	switch {
	case err == nil:
		out := make([]store.Vector, len(points))
		for i := range points {
			out[i] = store.Vector{Point: points[i].Number, Version: points[i].Version, Data: packed(quantised(got[i]))}
		}
		return out, nil
	case !refused(err) || ctx.Err() != nil:
		return nil, err
	case len(points) == 1:
		// Perhaps everything is refused, because of the settings.
		if _, err := s.Embedder.Embed(ctx, []string{"text"}); err != nil {
			return nil, err
		}
		s.Logger.WarnContext(ctx, "the embedding model takes the text of a point not", "point", points[0].ID, "error", err)
		return []store.Vector{{Point: points[0].Number, Version: points[0].Version}}, nil
	}
	out, err := s.embedPoints(ctx, points[:len(points)/2])
	if err != nil {
		return out, err
	}
	more, err := s.embedPoints(ctx, points[len(points)/2:])
	return append(out, more...), err
}

// refused says whether an embedder blames the texts.
func refused(err error) bool {
	var r interface{ Refused() bool }
	return errors.As(err, &r) && r.Refused()
}

// embedded is the text of a point whose vector is made.
func embedded(p *store.Point) string {
	return strings.ToValidUTF8(clip("Question: "+p.Question+"\n\nAnswer: "+p.Answer, maxEmbedBytes), "")
}
