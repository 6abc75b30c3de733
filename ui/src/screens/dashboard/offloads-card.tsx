import { useQuery } from "@tanstack/react-query";
import { offloadsQuery } from "../../api/queries";
import { formatDuration } from "../../format/time";
import { estimatedSavedSeconds, lunsOf, totalsOf } from "../../measures/statistics";
import { Panel } from "../../parts/panel";
import { Told } from "../../parts/states";
import { Bytes } from "../../parts/values";
import { text } from "../../text";

const words = text.dashboard.offloads;

export function OffloadsCard() {
  const query = useQuery(offloadsQuery);
  return (
    <Panel title={words.title} lead={words.lead}>
      <Told query={query} what={words.title} lines={4}>
        {(offloads) => {
          const totals = totalsOf(lunsOf(offloads));
          const saved = estimatedSavedSeconds(totals);
          return (
            <>
              <dl className="zv-figures">
                <Figure name={words.cloned} help={words.clonedHelp} value={totals.cloned} />
                <Figure name={words.copied} help={words.copiedHelp} value={totals.copied} />
                <Figure name={words.zeroed} help={words.zeroedHelp} value={totals.zeroed} />
                <Figure name={words.reclaimed} help={words.reclaimedHelp} value={totals.reclaimed} />
              </dl>
              {saved > 0 ? <p title={words.savedHelp}>{words.saved(formatDuration(saved * 1000))}</p> : <p>{words.none}</p>}
              {saved > 0 && <p className="zv-lead">{words.savedHelp}</p>}
            </>
          );
        }}
      </Told>
    </Panel>
  );
}

function Figure({ name, help, value }: { readonly name: string; readonly help: string; readonly value: number }) {
  return (
    <div title={help}>
      <dt>{name}</dt>
      <dd>
        <Bytes value={value} />
      </dd>
    </div>
  );
}
