package schedule

import "patchbay/internal/store"

// ClassicDays are the days of the classic course, counted from the learner's day on which the point
// was created: those of the original service (github.com/MrYang2016/learn-assistant at 1c398d0).
var ClassicDays = [4]int{1, 7, 16, 35}

// ClassicDates returns the dates of the classic course of a point created on the given day.
func ClassicDates(created store.Day) [len(ClassicDays)]store.Day {
	var days [len(ClassicDays)]store.Day
	for i, n := range ClassicDays {
		days[i] = created + store.Day(n)
	}
	return days
}

// ResumeClassic returns the remaining dates of the classic course for a point that changes to it
// after done successful reviews, the last of them on the day last (ignored if done is 0). If the
// next date of its course is after today, the course continues there. Otherwise the remaining dates
// keep their gaps, counted from the last review, or from the creation of a point that was never
// reviewed; if the first of them is past, the dates begin today. After four reviews nothing
// remains.
func ResumeClassic(done int, created, last, today store.Day) []store.Day {
	done = max(done, 0)
	if done >= len(ClassicDays) {
		return nil
	}
	course := ClassicDates(created)
	left := course[done:]
	if left[0] > today {
		return left
	}
	before, at := 0, created
	if done > 0 {
		before, at = ClassicDays[done-1], last
	}
	for i := range left {
		n := ClassicDays[done+i]
		at = max(at+store.Day(n-before), today)
		left[i], before = at, n
	}
	return left
}
