package learn

import (
	"math"
	"strconv"
	"strings"
)

// Charts are drawn in a space of this size, and scaled with the page.
const (
	sheetWide, sheetHigh = 360.0, 170.0
	sheetLeft            = 34.0 // space for the numbers
	sheetTop, sheetFoot  = 10.0, 24.0
)

// value is a point of a chart.
type value struct {
	Label, Short string  // for the table, and for the axis below the chart
	N            float64 // negative means no value
	Text         string
}

// chart is a chart with a table of its numbers.
type chart struct {
	ID, Title, Told string
	Heads           [2]string // of the table's columns
	Values          []value

	Bars  []box
	Dots  []dot
	Lines []string // SVG points of each line
	Ticks []tick
}

// box is a bar, dot a point of a line, and tick a number at an axis.
type (
	box  struct{ X, Y, W, H, Told string }
	dot  struct{ X, Y, Told string }
	tick struct {
		X, Y, Text string
		Across     bool // with a grid line across the chart
		LineY      string
	}
)

func length(n float64) string { return strconv.FormatFloat(n, 'f', 1, 64) }

// columnWidth returns the width of each value's column.
func (c *chart) columnWidth() float64 {
	return (sheetWide - sheetLeft) / float64(max(len(c.Values), 1))
}

// bars draws a bar for each value.
func (c chart) bars() chart {
	most := 0.0
	for _, v := range c.Values {
		most = max(most, v.N)
	}
	top, step := roundScale(most)
	high := sheetHigh - sheetTop - sheetFoot
	for n := 0.0; n <= top; n += step {
		c.gridLine(sheetTop+high*(1-n/top), strconv.Itoa(int(n)))
	}
	wide := c.columnWidth()
	for i, v := range c.Values {
		if v.N > 0 {
			h := max(high*v.N/top, 1)
			c.Bars = append(c.Bars, box{length(sheetLeft + float64(i)*wide + wide*0.12), length(sheetTop + high - h),
				length(wide * 0.76), length(h), v.Label + ": " + v.Text})
		}
	}
	c.axisLabels()
	return c
}

// lowest is where the axis of percentages begins: values below it do not last.
const lowest = 50.0

// line draws a line through the values, which are percentages. Missing values interrupt it.
func (c chart) line() chart {
	high := sheetHigh - sheetTop - sheetFoot
	at := func(n float64) float64 { return sheetTop + high*(1-(max(n, lowest)-lowest)/(100-lowest)) }
	for n := lowest; n <= 100; n += 10 {
		c.gridLine(at(n), strconv.Itoa(int(n))+"%")
	}
	wide := c.columnWidth()
	var points []string
	end := func() {
		if len(points) > 1 {
			c.Lines = append(c.Lines, strings.Join(points, " "))
		}
		points = nil
	}
	for i, v := range c.Values {
		if v.N < 0 {
			end()
			continue
		}
		x, y := length(sheetLeft+(float64(i)+0.5)*wide), length(at(v.N))
		points = append(points, x+","+y)
		c.Dots = append(c.Dots, dot{x, y, v.Label + ": " + v.Text})
	}
	end()
	c.axisLabels()
	return c
}

// gridLine adds a number at the left axis with its grid line.
func (c *chart) gridLine(y float64, text string) {
	c.Ticks = append(c.Ticks, tick{X: length(sheetLeft - 5), Y: length(y + 3.5), Text: text, Across: true,
		LineY: length(y)})
}

// axisLabels adds as many dates as there is space for.
func (c *chart) axisLabels() {
	every := max((len(c.Values)+5)/6, 1)
	for i := 0; i < len(c.Values); i += every {
		c.Ticks = append(c.Ticks, tick{X: length(sheetLeft + (float64(i)+0.5)*c.columnWidth()),
			Y: length(sheetHigh - 7), Text: c.Values[i].Short})
	}
}

// roundScale returns a round maximum for an axis, not less than most, and the step of its numbers.
func roundScale(most float64) (top, step float64) {
	if most < 4 {
		return 4, 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(most/4)))
	for _, n := range []float64{1, 2, 2.5, 5, 10} {
		if step = n * unit; step == math.Trunc(step) && step*4 >= most {
			return step * 4, step
		}
	}
	return unit * 40, unit * 10
}
