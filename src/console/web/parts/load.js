/** What waits, runs and works over time, and why the number of workers changed. */
import { number } from "../format.js";
import { html } from "../html.js";
import { Card, Wait } from "./card.js";
import { Chart } from "./chart.js";
import { Decisions } from "./decisions.js";
import { RangePicker } from "./range.js";
import { useSeries } from "./series.js";

/** `lines`: {metric, label, tone, fill?}[]. {data, error, lines, newest(metric)}; `of` as of useSeries. */
export function useLoad(of, lines, range) {
  const { data, error } = useSeries(
    of,
    lines.map(({ metric }) => metric),
    range,
  );
  const newest = (metric) => data?.values[metric].findLast((value) => value != null) ?? 0;
  return { data, error, lines, newest };
}

export function LoadCard({ load: { data, error, lines }, params, children }) {
  return html`<${Card} id="load" title="Waiting and workers" aside=${html`<${RangePicker} params=${params} />`}>
    ${
      data === undefined
        ? html`<${Wait} error=${error} />`
        : html`<${Chart}
            label="Waiting, running and workers over time"
            at=${data.at}
            series=${lines.map((line) => ({ ...line, stepped: true, values: data.values[line.metric] }))}
            format=${(value) => number(value, value < 10 ? 1 : 0)}
            formatNewest=${(value) => number(value)}
          />`
    }
    ${children}
  </${Card}>`;
}

/** `decisions`: as of useQuery. */
export function WhyCard({ decisions: { data, error }, named }) {
  return html`<${Card} id="why" title="Why it scaled" className="scrolls">
    ${
      data === undefined
        ? html`<${Wait} error=${error} />`
        : html`<${Decisions} decisions=${data.decisions.decisions} named=${named} />`
    }
  </${Card}>`;
}
