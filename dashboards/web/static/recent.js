// Numbers that are not derived series: what runs now, and what was counted
// within the time that the charts show.
import { query } from "./api.js";
import { engineKey } from "./pools.js";

// recent asks for all of them. What history cannot answer is left out, and the
// page then falls back on what the fleet says.
export async function recent(fleet, seconds) {
  const at = Date.parse(fleet.now) / 1000;
  const gateway = (labels) => `${labels.job} ${labels.instance}`;
  const asked = {
    running: ["sum by (job, instance, engine) (vllm:num_requests_running)", engineKey],
    preempted: [`sum by (job, instance, engine) (increase(kvwatch_preemptions_total[${seconds}s]))`, engineKey],
    rejected: [`sum by (job, instance) (increase(kvwatch_gateway_rejected_requests_total[${seconds}s]))`, gateway],
    cooldowns: [`sum by (job, instance) (increase(kvwatch_gateway_cooldowns_total[${seconds}s]))`, gateway],
  };
  const answers = await Promise.all(Object.entries(asked).map(async ([name, [expression, key]]) => {
    const result = await query(expression, at);
    return [name, new Map(result.map((s) => [key(s.metric), Number(s.value[1])]))];
  }));
  return Object.fromEntries(answers);
}
