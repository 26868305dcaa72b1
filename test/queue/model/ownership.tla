------------------------------ MODULE ownership ------------------------------
(***************************************************************************)
(* One shard of the queue, several replicas that may all believe to own    *)
(* it, a database that can fail over to a standby without the last         *)
(* commits, callers that send a job again when its answer is lost.         *)
(*                                                                         *)
(* A replica takes the shard (epoch + 1, a nonce that nobody had), loads   *)
(* the rows, and writes batches: a job is put, handed out, ended. A batch  *)
(* is sent until its answer is known. It is carried out when the row of    *)
(* the shard is as it was taken, the batch before it is there, and it was  *)
(* not carried out before. Nothing depends on time: any replica may take   *)
(* the shard at any moment.                                                *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS Replicas, Jobs,
          MaxTakes,      \* So many times the shard is taken.
          MaxFailovers,
          LosesTail,     \* Whether a standby may lack the last commit.
          Fenced,        \* FALSE: batches are written whoever has the shard.
          Nonces,        \* FALSE: the epoch alone fences.
          Follows        \* FALSE: a batch does not ask for the one before it.

None == "none"
States == {"absent", "queued", "running", "done"}

VARIABLES
  db,         \* The primary: epoch, nonce, jobs (state, fence), journal, ends
  standby,    \* What a standby that lacks the last commit has.
  mem,        \* Of each replica: what it believes, and its batch on the way.
  accepted,   \* Jobs whose callers have an answer.
  lostOnes,   \* Jobs that a lost tail had.
  told,       \* Of each job: how often a worker was told that it is done.
  nonce,      \* The last that was drawn.
  failovers

vars == <<db, standby, mem, accepted, lostOnes, told, nonce, failovers>>

Row == [state |-> "absent", fence |-> 0]
NoBatch == [job |-> None, to |-> "absent", was |-> Row, fence |-> 0, n |-> 0, after |-> 0]
Nothing == [owns |-> FALSE, epoch |-> 0, nonce |-> 0, jobs |-> [j \in Jobs |-> Row],
            last |-> 0, n |-> 0, batch |-> NoBatch]

Init ==
  /\ db = [epoch |-> 0, nonce |-> 0, jobs |-> [j \in Jobs |-> Row], journal |-> {}, ends |-> [j \in Jobs |-> 0]]
  /\ standby = db
  /\ mem = [r \in Replicas |-> Nothing]
  /\ accepted = {} /\ lostOnes = {}
  /\ told = [j \in Jobs |-> 0]
  /\ nonce = 0 /\ failovers = 0

Commit(new) == db' = new /\ standby' = IF LosesTail THEN db ELSE new

(* Compare and set, then the rows: one transaction, and no batch before it is done. *)
Take(r) ==
  /\ nonce < MaxTakes
  /\ ~mem[r].owns
  /\ nonce' = nonce + 1
  /\ Commit([db EXCEPT !.epoch = @ + 1, !.nonce = nonce + 1])
  /\ mem' = [mem EXCEPT ![r] = [Nothing EXCEPT !.owns = TRUE, !.epoch = db.epoch + 1, !.nonce = nonce + 1,
                                               !.jobs = db.jobs, !.n = mem[r].n]]
  /\ UNCHANGED <<accepted, lostOnes, told, failovers>>

(* Work of a batch: in memory at once, then on its way. *)
Send(r, j, to, fence) ==
  /\ mem[r].owns /\ mem[r].batch.job = None
  /\ mem' = [mem EXCEPT ![r].batch = [job |-> j, to |-> to, was |-> mem[r].jobs[j], fence |-> fence,
                                      n |-> mem[r].n + 1, after |-> mem[r].last],
                        ![r].n = @ + 1,
                        ![r].jobs[j] = [state |-> to, fence |-> fence]]
  /\ UNCHANGED <<db, standby, accepted, lostOnes, told, nonce, failovers>>

(* A call, or one that is sent again: it looks for the job first. *)
Submit(r, j) == mem[r].jobs[j].state = "absent" /\ j \notin accepted /\ Send(r, j, "queued", 0)
HandOut(r, j) == mem[r].jobs[j].state = "queued" /\ Send(r, j, "running", mem[r].epoch)
(* The worker that holds this hand-out has a result: it is brought to whoever knows the hand-out. *)
End(r, j) == mem[r].jobs[j].state = "running" /\ Send(r, j, "done", mem[r].jobs[j].fence)

Own(r) == \/ ~Fenced
          \/ db.epoch = mem[r].epoch /\ (db.nonce = mem[r].nonce \/ ~Nonces)
Before(r) == <<r, mem[r].batch.n>> \in db.journal
Behind(r) == \/ ~Follows
             \/ mem[r].batch.after = 0
             \/ <<r, mem[r].batch.after>> \in db.journal

(* Of those that are there: what was read is behind it. *)
LastOf(r) == LET all == {n \in 0..mem[r].n : n = 0 \/ <<r, n>> \in db.journal} IN CHOOSE n \in all : \A m \in all : m <= n

(* It arrives, once or again. Its rows are found by number and fence; else the statement fails as a whole. *)
Arrive(r) ==
  LET b == mem[r].batch IN
  /\ b.job # None
  /\ Own(r) /\ Behind(r) /\ ~Before(r)
  /\ db.jobs[b.job] = b.was
  /\ Commit([db EXCEPT !.jobs[b.job] = [state |-> b.to, fence |-> b.fence],
                       !.journal = @ \union {<<r, b.n>>},
                       !.ends[b.job] = IF b.to = "done" THEN @ + 1 ELSE @])
  /\ UNCHANGED <<mem, accepted, lostOnes, told, nonce, failovers>>

(* The answer of a batch that was carried out. Lost answers need no step: the batch just stays on its way. *)
Answer(r) ==
  LET b == mem[r].batch IN
  /\ b.job # None /\ Before(r) /\ Own(r)
  /\ accepted' = IF b.to = "queued" THEN accepted \union {b.job} ELSE accepted
  /\ told' = IF b.to = "done" THEN [told EXCEPT ![b.job] = @ + 1] ELSE told
  /\ mem' = [mem EXCEPT ![r].batch = NoBatch, ![r].last = b.n]
  /\ UNCHANGED <<db, standby, lostOnes, nonce, failovers>>

(* The shard is another's: memory is dropped, whatever was under way. *)
Lose(r) ==
  /\ mem[r].owns /\ mem[r].batch.job # None /\ ~Own(r)
  /\ mem' = [mem EXCEPT ![r] = [Nothing EXCEPT !.n = mem[r].n]]
  /\ UNCHANGED <<db, standby, accepted, lostOnes, told, nonce, failovers>>

(* The batch before it is not there, or a row is not as it was: all is read again. *)
Reload(r) ==
  LET b == mem[r].batch IN
  /\ b.job # None /\ Own(r) /\ ~Before(r)
  /\ ~Behind(r) \/ db.jobs[b.job] # b.was
  /\ mem' = [mem EXCEPT ![r].batch = NoBatch, ![r].last = LastOf(r), ![r].jobs = db.jobs]
  /\ UNCHANGED <<db, standby, accepted, lostOnes, told, nonce, failovers>>

(* The standby takes over; answers of the server before it are never heard. *)
Failover ==
  /\ failovers < MaxFailovers
  /\ failovers' = failovers + 1
  /\ db' = standby /\ standby' = standby
  /\ LET gone == {j \in Jobs : db.jobs[j] # standby.jobs[j]} IN
       /\ lostOnes' = lostOnes \union gone
       /\ told' = [j \in Jobs |-> IF j \in gone /\ standby.jobs[j].state # "done" THEN 0 ELSE told[j]]
  /\ UNCHANGED <<mem, accepted, nonce>>

Next == \/ Failover
        \/ \E r \in Replicas : Take(r) \/ Arrive(r) \/ Answer(r) \/ Lose(r) \/ Reload(r)
        \/ \E r \in Replicas, j \in Jobs : Submit(r, j) \/ HandOut(r, j) \/ End(r, j)

Spec == Init /\ [][Next]_vars

(* What is promised. *)
OneEnd == \A j \in Jobs : db.ends[j] <= 1 /\ told[j] <= 1
AcceptedIsThere == \A j \in accepted : db.jobs[j].state # "absent" \/ j \in lostOnes
(* Between batches an owner has in memory what is in the rows, unless the tail with it is lost and it has not written since. *)
MemoryIsRows == \A r \in Replicas :
  (mem[r].owns /\ mem[r].batch.job = None /\ Own(r) /\ (mem[r].last = 0 \/ <<r, mem[r].last>> \in db.journal))
    => (mem[r].jobs = db.jobs)
(* It does not matter who is who. *)
Alike == Permutations(Replicas) \union Permutations(Jobs)
=============================================================================
